"""Divergence is a result: it is detected before the weights change, and the module is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina import residual
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.callbacks.display import Display
from lamina.training.divergence import Diverged, LossMonitor, judge_end
from support.small_runs import assert_same, before_update, building, config_for, interrupted, spoiled, state_of


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_gradient_that_is_nan_stops_before_the_update_and_is_located(
    value: float, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores)
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        name, before = spoiled(training, value, from_step=3), {}
        before_update(training, lambda step: before.update(state_of(training)))
        state, reason = training.run()
    assert state == "failed"
    assert reason == f"the gradient of step 3 (epoch 0, batch 2) is not finite, first in the gradient of {name}"
    assert_same(state_of(training), before)
    report = json.loads((tmp_path / "run" / "diagnosis" / "failure.json").read_text())
    assert torch.isfinite(torch.tensor(float(report["loss"])))
    assert not torch.isfinite(torch.tensor(float(report["gradient_norm"])))
    assert sorted(report["examples"]) == sorted(training.batches.plan.epoch(0)[2])
    assert report["first_bad"].endswith(name)


@pytest.mark.parametrize("name", residual.names())
def test_a_value_that_is_not_finite_stops_before_the_update_and_is_located(
    name: str, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores, model={"residual": name})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        before = {}

        def poison(step: int) -> None:
            if step == 3:
                training.model.decoder.layers[1].sublayers[2].inner.weight.data[0, 0] = torch.nan
                before.update({key: value.clone() for key, value in training.model.state_dict().items()})

        before_update(training, poison)
        state, reason = training.run()
        assert state == "failed"
        assert "step 3" in reason
        assert "decoder.layers.1.sublayers.2.inner" in reason
        for key, value in before.items():
            assert torch.equal(training.model.state_dict()[key].nan_to_num(7.0), value.nan_to_num(7.0)), key
        report = json.loads((folder.diagnosis / "failure.json").read_text())
        assert report["step"] == 3
        batch = training.task.batches("train", config.data, seed=config.seed).batch(0, 2)
        assert sorted(report["examples"]) == sorted(batch.examples)


def test_a_loss_that_stays_above_its_start_is_a_failure(stores: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 3.0}, "train": {"steps": 120}}
    status = Run(config_for("translation", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "above its start" in status.reason
    assert status.step < 120


def classifier_losses(rng: np.random.Generator, steps: int, examples: int = 16, learns: bool = True) -> list[float]:
    """The losses of batches of a binary classifier: log 2 for each example at first, uneven once it is confident."""
    margin = np.linspace(0.0, 1.0 if learns else 0.0, steps)[:, None] + rng.normal(0, 0.8, (steps, examples))
    return np.log1p(np.exp(-margin)).mean(1).tolist()


def follow(losses: list[float], monitor: LossMonitor | None = None) -> LossMonitor:
    monitor = monitor or LossMonitor(len(losses))
    for loss in losses:
        monitor.follow(loss)
    return monitor


@pytest.mark.parametrize("learns", [True, False])
def test_a_first_batch_of_easy_examples_is_no_divergence(learns: bool) -> None:
    """Fine-tuning with batches of 16: of the first batches of 500 runs, the easiest is about 3 deviations low."""
    rng = np.random.default_rng(1)
    for _ in range(500):
        follow(classifier_losses(rng, 345, learns=learns))


@pytest.mark.parametrize(
    ("mean", "spread"),
    [(0.69 + 0.6, 0.1), (0.69 + 5, 3.0), (50.0, 30.0), (1e300, 1e300)],
    ids=["higher", "noisy", "exploding", "huge"],
)
def test_losses_clearly_above_the_first_are_a_divergence(mean: float, spread: float) -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(Diverged, match="above its start of 0.690, by more than batches differ, for 34 steps"):
        follow([0.69, *(mean + spread * rng.standard_normal(344)).clip(0).tolist()])


def test_a_resumed_monitor_decides_as_if_it_had_not_been_interrupted() -> None:
    losses = [0.69, *(1.2 + 0.05 * np.random.default_rng(1).standard_normal(50)).tolist()]
    whole, first = follow(losses, LossMonitor(600)), follow(losses[:20], LossMonitor(600))
    resumed = follow(losses[20:], LossMonitor(600, json.loads(json.dumps(first.state()))))
    assert whole.state() == resumed.state()
    assert whole.steps_above > 0


def test_the_end_of_a_run_is_judged_only_after_the_warm_up_and_enough_steps() -> None:
    worse = "validation loss 6.154 is not below a unigram model's 6.078"
    assert judge_end("", step=1, warmup_steps=4000) == ("finished", "")
    assert judge_end(worse, step=200, warmup_steps=200) == ("failed", worse)
    within = judge_end(worse, step=300, warmup_steps=4000)
    assert within[0] == "too short"
    assert worse in within[1]
    assert "step 300 of a warm-up of 4,000; to judge it, raise train.steps or lower schedule.warmup_steps" in within[1]
    few = judge_end(worse, step=199, warmup_steps=1)
    assert few[0] == "too short"
    assert "199 steps are too few to judge it; raise train.steps to 200 or more" in few[1]


def test_a_resume_with_other_steps_notes_the_new_limit(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    monkeypatch.setattr(Display, "note", lambda self, text: noted.append(text))
    interrupted(config_for("translation", stores, train={"steps": 400}), tmp_path / "run", after=2)
    for steps in (400, 1000):
        with RunFolder(tmp_path / "run").claim() as folder:
            building(config_for("translation", stores, train={"steps": steps}), folder)
    changed = [text for text in noted if "diverged" in text]
    assert changed == [
        "train.steps has changed: the run now counts as diverged after 100 steps above its first loss, "
        "formerly after 40"
    ]
