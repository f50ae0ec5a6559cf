"""Validation: when it is due, which step is the best, and when patience ends a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.report.terminal.runs import show_run
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.tasks.base import Losses
from lamina.training.callbacks.base import Callback
from lamina.training.loop import Training
from lamina.training.validation import BestStep
from support.small_runs import building, config_for, interrupted


@pytest.mark.parametrize(("higher", "values"), [(False, [3.0, 2.0, 2.0, 5.0, 1.0]), (True, [3.0, 4.0, 4.0, 1.0, 5.0])])
def test_better_is_strictly_better_and_waiting_is_counted(higher: bool, values: list[float]) -> None:
    best = BestStep("score", higher)
    assert [best.update(step, value) for step, value in enumerate(values)] == [True, True, False, False, True]
    assert (best.step, best.value, best.not_better) == (4, values[4], 0)


def test_the_best_step_is_restored_unless_the_metric_differs() -> None:
    best = BestStep("bleu", True)
    best.update(10, 20.0)
    best.update(20, 19.0)
    resumed = BestStep("bleu", True, best.state())
    assert (resumed.step, resumed.value, resumed.not_better) == (10, 20.0, 1)
    assert not resumed.update(30, 20.0)
    assert BestStep("nll", False, best.state()).step is None


class Poison(Callback):
    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        if training.step == 2:
            training.model.get_parameter("decoder.layers.0.sublayers.0.output.weight").data.fill_(torch.nan)


def test_a_search_that_refuses_a_diverged_model_is_a_failure(stores: Path, tmp_path: Path) -> None:
    """The step is fine, the weights after it are not, and the metric is measured before the loss."""
    config = config_for("translation", stores, train={"best": "metric", "validate_every": 2})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        training.callbacks.append(Poison())
        assert training.run() == ("failed", "the validation loss after step 2 is not finite")


def test_patience_stops_early(stores: Path, tmp_path: Path) -> None:
    changes = {"schedule": {"learning_rate": 1e-9}, "train": {"steps": 50, "validate_every": 1, "patience": 3}}
    status = Run(config_for("classification", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.step < 50
    assert status.state == "too short"
    assert status.reason.startswith("no better validation nll in 3 measurements; validation loss ")


@pytest.mark.parametrize(
    ("changes", "measured", "best"),
    [
        ({"best": "loss"}, [], 6),
        ({"best": "loss", "evaluate_every": 4}, [4], 6),
        ({"best": "metric"}, [2, 4, 6], 4),
        ({"best": "metric", "evaluate_every": 4}, [4, 6], 6),
    ],
)
def test_the_loss_or_the_metric_decides_which_weights_are_best(
    changes: dict[str, Any],
    measured: list[int],
    best: int,
    stores: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loss falls all the time; accuracy, measured three times, is best in between."""
    found = chain([0.5, 0.9, 0.2] if len(measured) == 3 else [0.2, 0.4], repeat(0.0))
    falling = chain([0.3, 0.2, 0.1], repeat(0.1))  # a finished run is measured at its end in any case
    monkeypatch.setattr(
        "lamina.tasks.classification.Classification.evaluate",
        lambda *given, **options: {"loss": 1.0, "nll": next(falling), "accuracy": next(found)},
    )
    monkeypatch.setattr(
        "lamina.tasks.base.Task.total_losses",
        lambda *given, **options: Losses(torch.tensor(1.0), torch.tensor(next(falling)), 1),
    )
    config = config_for("classification", stores, train={"validate_every": 2, **changes})
    Run(config, tmp_path / "run").train(quiet=True)
    lines = list(RunFolder(tmp_path / "run").metrics.read())
    assert [line["step"] for line in lines if "valid_accuracy" in line] == measured
    assert [line["step"] for line in lines if "valid_nll" in line] == [2, 4, 6]
    assert (tmp_path / "run" / "checkpoints" / "best").resolve().name == f"step-{best:08d}"


def test_patience_follows_the_metric_and_the_summary_tells_it(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = iter([0.5, 0.9, 0.8, 0.7, 0.6])
    monkeypatch.setattr(
        "lamina.tasks.classification.Classification.evaluate",
        lambda *given, **options: {"loss": 0.1, "nll": 0.1, "accuracy": next(found)},
    )
    changes = {
        "steps": 20,
        "validate_every": 1,
        "best": "metric",
        "patience": 2,
        "keep_checkpoints": 2,
        "save_every": 0,
    }
    config = config_for("classification", stores, train=changes)
    interrupted(config, tmp_path / "run", after=3)
    status = Run(config, tmp_path / "run").train(quiet=True)
    assert (status.step, status.reason) == (4, "no better validation accuracy in 2 measurements")
    summary = Run(tmp_path / "run").summary()
    assert summary.best_metric == ("accuracy", 0.9, 2)
    show_run(summary)
    assert "best validation accuracy 0.9 at step 2" in capsys.readouterr().out


def test_a_validation_loss_that_is_nan_is_a_failure(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Losses(torch.tensor(torch.nan), torch.tensor(torch.nan), 5)
    monkeypatch.setattr("lamina.tasks.base.Task.total_losses", lambda *given, **options: nothing)
    status = Run(config_for("translation", stores), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "validation loss after step 6 is not finite" in status.reason
