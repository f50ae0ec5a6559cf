"""Callbacks are called at every event of a run, in order, and at its end, whatever ends it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.training.callbacks.base import Callback
from lamina.training.callbacks.display import Display
from lamina.training.config import RunConfig
from lamina.training.distributed.world import ALONE
from lamina.training.loop import Training
from support.small_runs import assert_same, config_for, lines, weights


class Recorder(Callback):
    """Remembers each event with its step and the names of its values."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, set[str]]] = []

    def on_start(self, training: Training) -> None:
        self.events.append(("start", training.step, set()))

    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        self.events.append(("step", training.step, set(values)))

    def on_log(self, training: Training, values: Mapping[str, Any]) -> None:
        self.events.append(("log", training.step, set(values)))

    def on_validation(self, training: Training, values: Mapping[str, float]) -> None:
        self.events.append(("validation", training.step, set(values)))

    def on_checkpoint(self, training: Training) -> None:
        self.events.append(("checkpoint", training.step, set()))

    def on_end(self, training: Training) -> None:
        self.events.append(("end", training.step, set()))

    @property
    def names(self) -> list[tuple[str, int]]:
        return [(name, step) for name, step, _ in self.events]


def train(config: RunConfig, path: Path, *callbacks: Callback) -> tuple[str, str]:
    with RunFolder(path).claim() as folder:
        store = Store.open(config.data.store or "")
        return Training(config, store, folder, ALONE, Display(quiet=True), callbacks=callbacks).run()


def test_all_events_in_order(stores: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    config = config_for("translation", stores, train={"steps": 3, "save_every": 2, "validate_every": 2})
    train(config, tmp_path / "run", recorder)
    assert recorder.names == [
        ("start", 0),
        ("log", 1),
        ("step", 1),
        ("log", 2),
        ("step", 2),
        ("log", 2),
        ("validation", 2),
        ("checkpoint", 2),
        ("log", 3),
        ("step", 3),
        ("log", 3),
        ("validation", 3),
        ("checkpoint", 3),
        ("end", 3),
    ]
    step, validation = (
        next(names for event, _, names in recorder.events if event == e) for e in ("step", "validation")
    )
    assert step == {"loss", "nll", "learning_rate", "gradient_norm", "tokens_per_second", "epoch"}
    assert validation == {"loss", "nll"}


def test_a_run_that_is_resumed_starts_at_its_step(stores: Path, tmp_path: Path) -> None:
    train(config_for("translation", stores, train={"steps": 2}), tmp_path / "run")
    recorder = Recorder()
    train(config_for("translation", stores, train={"steps": 3}), tmp_path / "run", recorder)
    assert recorder.names[0] == ("start", 2)


def test_values_that_a_callback_logs_are_in_the_metrics_and_passed_to_the_others(stores: Path, tmp_path: Path) -> None:
    class Logger(Callback):
        def on_validation(self, training: Training, values: Mapping[str, float]) -> None:
            training.log({"double_nll": 2 * values["nll"]})

    recorder = Recorder()
    train(config_for("translation", stores, train={"steps": 2}), tmp_path / "run", Logger(), recorder)
    assert [step for step, _ in lines(tmp_path / "run", "double_nll")] == [2]
    assert ("log", 2, {"double_nll"}) in recorder.events


def test_every_callback_is_ended_even_if_one_raises_an_error(stores: Path, tmp_path: Path) -> None:
    class Broken(Callback):
        def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
            raise RuntimeError("broken")

        def on_end(self, training: Training) -> None:
            raise OSError("broken at the end, too")

    first, last = Recorder(), Recorder()
    with pytest.raises(RuntimeError, match="^broken$"):  # the error at the end does not hide it
        train(config_for("translation", stores), tmp_path / "run", first, Broken(), last)
    assert first.names[-1] == last.names[-1] == ("end", 1)


def test_callbacks_change_no_weight(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 3, "validate_every": 1})
    train(config, tmp_path / "plain")
    train(config, tmp_path / "followed", Recorder())
    assert_same(weights(tmp_path / "plain"), weights(tmp_path / "followed"))
