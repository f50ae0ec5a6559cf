"""An engine that trains nothing: it writes losses and times into the records of trials."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import DIVERGED
from lamina.runs.run import Run
from lamina.training.config import RunConfig

LossOf = Callable[[RunConfig, int], float | None]
"""The loss of a config at a step; None for a run that diverges there."""


class MadeTrials:
    """An `Engine` whose trials have made-up losses and take so many seconds."""

    def __init__(self, loss_of: LossOf, per_step: float = 0.1, per_start: float = 0.5) -> None:
        self.loss_of, self.per_step, self.per_start = loss_of, per_step, per_start
        self.trained: list[tuple[str, int]] = []
        """The names of the trials in the order in which they were submitted, and the steps they were trained to."""

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        assert not diagnose
        folder = RunFolder(run)
        record = folder.trial.read()
        assert record is not None
        self.trained.append((run.name, record.until))
        config = Run(run).config
        loss = self.loss_of(config, record.until)
        steps = record.until - max(record.losses, default=0)
        with folder.claim() as claimed:
            if loss is None:
                claimed.set_status("failed", record.until, "the loss is not finite")
            else:
                record.losses[record.until] = loss
            spent = record.seconds + self.per_start + steps * self.per_step
            claimed.trial.write(record.model_copy(update={"seconds": spent, "seconds_per_step": self.per_step}))
        done: Future[int] = Future()
        done.set_result(DIVERGED if loss is None else 0)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
