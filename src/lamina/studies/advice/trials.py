"""Trials: runs of a few steps that stop, are measured, and may be continued later.

A trial is the planned run in small: its schedule is compressed to the length of the longest trial, so that warm-up and
decay take the same share of it, and a candidate is judged at the learning rate that it is proposed for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from lamina.run_folder.records import TrialRecord
from lamina.runs.run import Run
from lamina.training.callbacks.base import Callback
from lamina.training.config import RunConfig
from lamina.training.loop import Training
from lamina.training.schedule import ScheduleOptions

Clock = Callable[[], float]

ONLY_WHAT_IS_JUDGED: dict[str, Any] = {
    "epochs": None,
    "validate_every": 0,
    "validate_every_epochs": None,
    "evaluate_every": 0,
    "evaluate_every_epochs": None,
    "save_every": 0,
    "save_every_epochs": None,
    "best": "loss",
    "patience": 0,
    "track": (),
    "samples": 0,
}
"""Settings of `[train]` without anything that takes time and decides nothing."""


def trial_config(config: RunConfig, seed: int, length: int, planned: int) -> RunConfig:
    """The config of a trial.

    length: the number of steps of the longest trial.
    planned: the number of steps of the run that advice is wanted for.
    """
    # One step more than is ever trained: a run that reaches its end is evaluated by the task's metrics.
    train = config.train.model_copy(update=ONLY_WHAT_IS_JUDGED | {"steps": length + 1})
    schedule = compress(config.schedule, length / planned)
    watch = config.diagnose.model_copy(update={"every": 0})
    return config.model_copy(update={"seed": seed, "train": train, "schedule": schedule, "diagnose": watch})


def compress(schedule: ScheduleOptions, share: float) -> ScheduleOptions:
    """The schedule of a run that is shorter by this factor. Lengths in epochs stay as they are."""
    shorter = {"warmup_steps": max(1, round(share * schedule.warmup))}
    if schedule.name in ("inverse-root", "shifted-root"):
        shorter["decay_steps"] = max(shorter["warmup_steps"], round(share * schedule.decay))
    return schedule.model_copy(update=shorter)


def train_trial(path: Path) -> int:
    """Train the trial of a folder to the step that its record names, and add what was measured to the record.

    Returns 0 if it reached that step, and else the exit code of the run.
    """
    run = Run(path)
    record = run.folder.trial.read()
    assert record is not None
    clock = clock_of(run.config)
    stop = StopAndMeasure(record.until, clock)
    began = clock()
    try:
        status = run.train(quiet=True, callbacks=[stop])
    finally:
        run.folder.trial.write(stop.complete(record, clock() - began))
    return 0 if stop.is_done else status.exit_code


def clock_of(config: RunConfig) -> Clock:
    """The clock of the budget: the processor's time, or the time of day where a GPU does the work."""
    return time.perf_counter if trains_on_gpu(config) else time.process_time


def trains_on_gpu(config: RunConfig) -> bool:
    device = config.train.device
    return torch.cuda.is_available() if device == "auto" else device != "cpu"


class StopAndMeasure(Callback):
    """Measures the validation loss at a step and has the run stop there."""

    def __init__(self, until: int, clock: Clock) -> None:
        self._until, self._clock = until, clock
        self._losses: dict[int, float] = {}
        self._times: list[float] = []

    def on_start(self, training: Training) -> None:
        self._stop_if_due(training)  # if the process was killed between this step and the record of it

    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        self._times.append(self._clock())
        self._stop_if_due(training)

    def _stop_if_due(self, training: Training) -> None:
        if training.step >= self._until:
            self._losses[training.step] = training.validation.losses(training.step)["nll"]
            training.interrupts.request()

    @property
    def is_done(self) -> bool:
        return bool(self._losses)

    def complete(self, record: TrialRecord, seconds: float) -> TrialRecord:
        """The record with what this attempt has added."""
        steps = len(self._times) - 1
        per_step = (self._times[-1] - self._times[0]) / steps if steps > 0 else record.seconds_per_step
        return record.model_copy(
            update={
                "losses": record.losses | self._losses,
                "seconds": record.seconds + seconds,
                "seconds_per_step": per_step,
            }
        )
