"""The training loop: the same update however it is divided, exact resuming, and how a run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import residual
from lamina.model import attention
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import DIVERGED
from lamina.runs.run import Run
from lamina.tasks import TASKS
from lamina.tasks.base import Losses
from support.small_runs import assert_same, building, config_for, interrupted, state_of, weights


def test_the_gradient_is_cut_to_the_norm_that_was_set(stores: Path, tmp_path: Path) -> None:
    """A step of plain SGD at rate 1 moves the weights by the clipped gradient itself."""
    plain = {"optimiser": {"name": "sgd"}, "schedule": {"name": "constant", "learning_rate": 1.0, "warmup_steps": 1}}

    def moved(clip: float) -> tuple[float, float]:
        training = building(
            config_for("translation", stores, **plain, train={"clip_norm": clip}), RunFolder(tmp_path / "unused")
        )
        before = [each.detach().clone() for each in training.model.parameters()]
        update = training.update(next(training.batches.shares()))
        steps = [(new - old).flatten() for new, old in zip(training.model.parameters(), before, strict=True)]
        return update.gradient_norm, torch.cat(steps).norm().item()

    norm, free = moved(0.0)
    assert free == pytest.approx(norm, rel=1e-4)
    assert norm > 0.05
    assert moved(0.01) == pytest.approx((norm, 0.01), rel=1e-3)
    assert moved(10 * norm) == pytest.approx((norm, norm), rel=1e-4)


@pytest.mark.parametrize("way", [{"accumulate": 3}, {"accumulate": 32}])
def test_what_a_scheme_is_calibrated_on_does_not_depend_on_how_batches_are_cut(
    way: dict[str, Any], stores: Path, tmp_path: Path
) -> None:
    def omegas(**changes: Any) -> dict[str, torch.Tensor]:
        config = config_for("translation", stores, model={"residual": "admin", "dropout": 0.3}, train=changes)
        training = building(config, RunFolder(tmp_path / "unused"))
        return {name: value for name, value in state_of(training).items() if name.endswith("omega")}

    assert_same(omegas(**way), omegas())


def test_compiled_layers_train_the_same_weights(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler's front-end alone, which computes as the plain model with torch's kernels, bit for bit."""
    compiled: list[Any] = []
    compile_function = torch.compile

    def by_eager(function: Any, *given: Any, **options: Any) -> Any:
        compiled.append(function.__self__)
        return compile_function(function, backend="eager")

    monkeypatch.setattr(attention, "is_short", lambda *arguments: False)
    config = config_for("translation", stores, model={"dropout": 0.0}, train={"steps": 3})
    Run(config, tmp_path / "plain").train(quiet=True)
    monkeypatch.setattr(torch, "compile", by_eager)
    asked = config_for("translation", stores, model={"dropout": 0.0}, train={"steps": 3, "compile": True})
    Run(asked, tmp_path / "compiled").train(quiet=True)
    assert {type(each).__name__ for each in compiled} == {"Layer"}
    assert len(compiled) == 4
    assert_same(weights(tmp_path / "plain"), weights(tmp_path / "compiled"))


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_run_ends_with_the_same_weights_in_every_task(task: str, stores: Path, tmp_path: Path) -> None:
    config = config_for(task, stores, model={"dropout": 0.2})
    Run(config, tmp_path / "whole").train(quiet=True)
    for after in (1, 4):
        interrupted(config, tmp_path / "parts", after)
    assert Run(config, tmp_path / "parts").train(quiet=True).state in ("finished", "too short")
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    whole, parts = (
        [line for line in RunFolder(tmp_path / name).metrics.read() if "loss" in line] for name in ("whole", "parts")
    )
    assert [line["loss"] for line in whole] == [line["loss"] for line in parts]


@pytest.mark.parametrize("name", residual.names())
def test_an_interrupted_run_ends_with_the_same_weights_under_every_scheme(
    name: str, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores, model={"residual": name, "dropout": 0.2}, train={"steps": 4})
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", 3)
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("float64")
def test_accumulation_and_processes_leave_the_gradient_as_it_is(task: str, stores: Path, tmp_path: Path) -> None:
    """One micro-batch, many, or those of several processes added up: the same gradient, label smoothing on."""

    def gradient(accumulate: int, rank: int = 0, size: int = 1) -> list[torch.Tensor]:
        config = config_for(
            task, stores, model={"dropout": 0.0}, data={"max_tokens": 600}, train={"accumulate": accumulate}
        )
        folder = RunFolder(tmp_path / "unused")
        training = building(config, folder)
        batches = [
            training.task.batches("train", config.data, seed=1, rank=each, processes=size * accumulate)
            for each in range(rank * accumulate, (rank + 1) * accumulate)
        ]
        shares = [each.batch(0, 0) for each in batches]
        micro_batches = [training.task.inputs(share, seed=1) for share in shares if len(share)]
        whole = training.task.inputs(training.task.batches("train", config.data, seed=1).batch(0, 0), seed=1)
        training.backward(micro_batches, whole.count)
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in training.model.parameters()]

    expected = gradient(1)
    for accumulate in (3, 32):
        for one, other in zip(gradient(accumulate), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    shared = [sum(parts) for parts in zip(gradient(2, 0, 2), gradient(2, 1, 2), strict=True)]
    for one, other in zip(shared, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_a_model_no_better_than_a_unigram_model_has_failed(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamina.training.divergence.FEWEST_STEPS", 4)
    status = Run(config_for("translation", stores, train={"steps": 4}), tmp_path / "run").train(quiet=True)
    assert (status.state, status.exit_code) == ("failed", DIVERGED)
    assert "not below a unigram model's" in status.reason


def test_a_run_that_is_too_short_is_not_judged_and_can_be_made_longer(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 4})
    status = Run(config, tmp_path / "run").train(quiet=True)
    assert (status.state, status.step, status.exit_code) == ("too short", 4, 0)
    assert status.reason.endswith("but 4 steps are too few to judge it; raise train.steps to 200 or more")
    assert Run(config, tmp_path / "run").train(quiet=True) == status, "it has ended"
    longer = config_for("translation", stores, train={"steps": 5})
    assert Run(longer, tmp_path / "run").train(quiet=True).step == 5


def test_the_best_weights_are_kept_though_no_save_was_due(stores: Path, tmp_path: Path) -> None:
    changes = {"train": {"steps": 9, "save_every": 0, "validate_every": 1}, "schedule": {"learning_rate": 1e-2}}
    Run(config_for("language-modelling", stores, **changes), tmp_path / "run").train(quiet=True)
    summary = Run(tmp_path / "run").summary()
    best = (tmp_path / "run" / "checkpoints" / "best").resolve()
    assert best.name == f"step-{summary.best_step:08d}"
    assert Run(tmp_path / "run").evaluate().scores["valid"]["nll"] == pytest.approx(summary.best_nll, rel=1e-5)


def test_the_last_validation_decides_not_the_best(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was better than a unigram model for a while, but is not at the end, has failed."""
    monkeypatch.setattr("lamina.training.divergence.FEWEST_STEPS", 2)
    found = iter([1.0, 50.0])
    monkeypatch.setattr(
        "lamina.tasks.base.Task.total_losses",
        lambda *given, **options: Losses(torch.tensor(1.0), torch.tensor(next(found)), 1),
    )
    changes = {"train": {"steps": 2, "validate_every": 1}, "schedule": {"warmup_steps": 1}}
    status = Run(config_for("translation", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "validation loss 50.000 is not below" in status.reason
