"""Training of trials by an engine, and what their folders say afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from pathlib import Path

from lamina.config import to_toml
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.progress import Progress
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import TrialRecord
from lamina.run_folder.status import DIVERGED, INTERRUPTED, REQUEUE
from lamina.studies.advice.ladder import TrialCost
from lamina.studies.engines import Engine, last_message
from lamina.training.config import RunConfig


@dataclass
class TrialRunner:
    """The trials of an advice, by the names of their folders."""

    folder: Path
    engine: Engine
    store: Store
    progress: Progress

    def train(self, configs: Mapping[str, RunConfig], until: int, stage: str) -> None:
        """Train the trials up to a step, from where each of them is; one that diverged stays as it is."""
        waiting = [name for name in configs if self.loss(name, until) is None and not self.failure(name)]
        paths = {name: self._prepare(name, configs[name], until) for name in waiting}
        futures = {self.engine.submit(path, diagnose=False): name for name, path in paths.items()}
        while futures:
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                name = futures.pop(future)
                self._check(name, future.result(), until)
                self.progress(stage, len(configs) - len(futures), len(configs))

    def loss(self, name: str, step: int) -> float | None:
        """The validation loss after a step; None if it was not measured there."""
        record = self._record(name)
        return record.losses.get(step) if record else None

    def failure(self, name: str) -> str:
        """Why a trial diverged; empty if it did not."""
        status = RunFolder(self.folder / name).status()
        return status.reason or status.state if status is not None and status.has_ended else ""

    def cost(self, name: str, steps: int) -> TrialCost:
        """The cost of a trial that was started once and trained for some steps."""
        record = self._record(name)
        assert record is not None
        return TrialCost(record.seconds_per_step, max(0.0, record.seconds - steps * record.seconds_per_step))

    def seconds_per_step(self, name: str) -> float:
        record = self._record(name)
        return record.seconds_per_step if record else 0.0

    def total(self, name: str) -> float:
        """The time of a trial over all attempts."""
        record = self._record(name)
        return record.seconds if record else 0.0

    def seconds(self) -> float:
        """The time of all trials together."""
        records = (RunFolder(folder).trial.read() for folder in self.folder.glob("*/"))
        return sum(each.seconds for each in records if each is not None)

    def _record(self, name: str) -> TrialRecord | None:
        return RunFolder(self.folder / name).trial.read()

    def _prepare(self, name: str, config: RunConfig, until: int) -> Path:
        before = self._record(name)
        with RunFolder(self.folder / name).claim() as claimed:
            if before is None:
                claimed.store_config(to_toml(config.resolved(self.store)))
            claimed.trial.write(before.model_copy(update={"until": until}) if before else TrialRecord(until=until))
        return self.folder / name

    def _check(self, name: str, code: int, until: int) -> None:
        """Refuse a trial that neither reached its step nor diverged."""
        if code == DIVERGED or self.loss(name, until) is not None:
            return
        if code in (REQUEUE, INTERRUPTED):
            raise UserError(f"{name} was interrupted; the same command continues from there")
        raise UserError(f"{name} ended with an error: {last_message(self.folder / name, code)}")
