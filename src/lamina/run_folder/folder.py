"""The run folder: training writes it, everything that draws or compares only reads it.

    runs/<name>/
      config.toml                 every setting, defaults included
      status.json                 state, step, times, version; hashes of the files that no other hash covers
      metrics.jsonl               losses and metrics, a line for each logged step
      samples.jsonl               outputs of the model at each validation
      started_from.json           the weights that the run was started from, if it has start_from
      manifest.json, tokenizer*.json   copies of the store's, the only ones that evaluation and generation use
      checkpoints/                step-00001000/ …, latest, best
      average/                    the average of several checkpoints
      diagnosis/
        start.json, step-00001000.json    diagnoses made by `lamina diagnose`
        training.json             what the watch measured in training
        observations.json         the watch's observations, from which a resumed run continues
        failure.json              step, batch and module of the first value that was not finite
        watch.json, watch.html    the report of the watch in the output folder of a Hugging Face Trainer
      tensorboard/, wandb-id.txt  of the trackers
      fingerprint.json, diagnosed.json, cost.json, log.txt   of a comparison
      study.json, numbers.json    the order of a study, and the numbers that are kept of the run
      trial.json                  how far a short run of an advice is trained, and its losses
      .lock                       held by the process that writes

This package does not import torch, because run folders are read before it is decided how a process uses torch. No other
package contains these file names. Reading a run folder changes nothing in it; a process that writes claims it first.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from pydantic import ValidationError

from lamina.errors import UserError
from lamina.files.atomic import sync_folder, write_file
from lamina.files.hashes import Damaged, FileRecord
from lamina.files.lock import Lock
from lamina.run_folder.checkpoints import AVERAGE, BEST, step_of
from lamina.run_folder.layout import RunFiles
from lamina.run_folder.metrics import FINAL, values_of
from lamina.run_folder.records import (
    Cost,
)
from lamina.run_folder.status import RunState, Status, compare_files, describe_change, dump_status, read_status
from lamina.version import __version__

if TYPE_CHECKING:
    from lamina.data.store import Store

FORMER = ".former"
"""The suffix, before a number, of a run folder that was renamed because the run was trained again."""


class RunFolder(RunFiles):
    """The files of a run, with claiming, writing and the status."""

    _made: tuple[Path, ...] = ()  # the folders above it that `claim` created, innermost first

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._lock = Lock(self.path / ".lock")

    def find_checkpoint(self, which: str) -> Path:
        """The folder of `best`, `latest`, `average` or `step-…`; if there is no best one, `best` is the latest."""
        if which == AVERAGE:
            if not self.average.exists():
                raise UserError(f"{self.path}: no average yet; make it with lamina average {self.path}")
            return self.average
        self.refuse_links()
        chosen = self.checkpoints / which
        if which == BEST and not chosen.exists():
            chosen = self.latest
        if not chosen.exists():
            there = ", ".join(each.name for each in self.list_checkpoints())
            raise UserError(f"{self.path}: no checkpoint {which!r}; there are: {there or 'none'}")
        return chosen

    def missing_diagnoses(self) -> list[Path]:
        """The files that `lamina diagnose` writes and that do not exist."""
        missing = [] if self.start_diagnosis.is_file() else [self.start_diagnosis]
        if self.last_step_diagnosis() is None and self.list_checkpoints():
            missing.append(self.step_diagnosis(step_of(self.find_checkpoint(BEST))))
        return missing

    def move_aside(self) -> Path:
        """Rename the folder to the first of `NAME.former1`, `NAME.former2` … that is free, and return that path."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}{FORMER}{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside

    @property
    def successor(self) -> Path | None:
        """The folder of the run that has replaced this one; None if it was not moved aside."""
        name, former, _ = self.path.name.partition(FORMER)
        return self.path.with_name(name) if former else None

    def claim(self) -> Self:
        """Create the folder if it does not exist, and lock it against other writers until `release` or the end."""
        self.refuse_links()
        self._made = tuple(each for each in self.path.parents if not each.exists())
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self.diagnosis.mkdir(exist_ok=True)
            for folder in (self.path, self.path.parent):
                sync_folder(folder)
            self._lock.acquire()
        except OSError as error:
            raise UserError(
                f"{self.path}: no run folder can be made there ({error.strerror}); choose another --folder"
            ) from error
        return self

    def refuse_links(self) -> None:
        """Refuse a folder that contains a link to a place outside it: files would be written there."""
        inside = self.path.resolve()
        for folder in (self.path, self.checkpoints, self.diagnosis):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.is_symlink() and not path.resolve().is_relative_to(inside):
                    raise UserError(
                        f"{path}: a link out of the run folder, which Lamina does not follow; replace it by what it "
                        "points to, or move the whole run folder and link that"
                    )

    def remove_unused(self) -> None:
        """Remove what `claim` created, if no run was started in the folder; a folder with other files is kept."""
        if self.config.exists() or self.status_file.exists():
            return
        with suppress(OSError):
            self._lock.path.unlink(missing_ok=True)
            for folder in (self.checkpoints, self.diagnosis, self.path, *self._made):
                folder.rmdir()

    def release(self) -> None:
        self.metrics.close()
        self.samples.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_being_written(self) -> bool:
        """Whether another process is training this run."""
        return self._lock.held_by_another

    def store_config(self, text: str) -> None:
        """Replace the config; the status does not record it meanwhile."""
        if self.config.is_file() and self.config.read_bytes() == text.encode():
            return
        status = self.status()
        if status is not None and self.config.name in status.files:
            self._write_status(status.model_copy(update={"files": {}}))
        self._write(self.config, text.encode())
        self.accept_config()

    def accept_config(self) -> None:
        """Record the config as it is now in the status, if there is one."""
        status = self.status()
        if status is not None:
            self._write_status(status.model_copy(update={"files": {self.config.name: FileRecord.of(self.config)}}))

    def copy_data(self, store: Store) -> None:
        """Copy the parts of the data that a trained model needs, besides examples: the manifest and the tokenizers."""
        from lamina.data.store import MANIFEST

        for name in (*sorted({*store.manifest.tokenizers.values()}), MANIFEST):
            write_file(self.path / name, (store.folder / name).read_bytes())

    @property
    def data_manifest(self) -> Path:
        """The run's copy of the manifest of its data."""
        from lamina.data.store import MANIFEST

        return self.path / MANIFEST

    def data_copy(self, find_arrays: Callable[[], Path]) -> Store:
        """The run's own manifest and tokenizers as a store; `find_arrays` is called when its examples are read."""
        from lamina.data.store import MANIFEST, Manifest, Store

        try:
            return Store(self.path, Manifest.read_file(self.path), find_arrays)
        except UserError as error:
            raise UserError(
                f"{error} It is the run's copy of the manifest of its data; copy {MANIFEST} and the tokenizers again "
                "from the store that the run was trained on."
            ) from None

    def set_status(
        self,
        state: RunState,
        step: int,
        reason: str = "",
        signal: str = "",
        run: str = "",
        planned_steps: int | None = None,
    ) -> Status:
        """Write the status, with records of the files of the run as they are now.

        run: the identity of the run if there is no status yet; by default a new one.
        planned_steps: the number of steps of the whole run; kept where it is not given.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        before = self.status()
        status = Status(
            state=state,
            step=step,
            reason=reason,
            started=before.started if before else now,
            updated=now,
            version=__version__,
            run=before.run if before else run or uuid4().hex,
            signal=signal,
            notes=before.notes if before else (),
            planned_steps=planned_steps or (before.planned_steps if before else None),
        )
        return self._write_status(self._with_records(status))

    def status(self) -> Status | None:
        """The status of the run; None if it was never started."""
        try:
            return read_status(self.status_file)
        except (ValidationError, Damaged):
            hint = self.other_version or (
                f"; damaged, or not Lamina's: move it away, then lamina train {self.path} writes it again"
            )
            raise UserError(f"{self.status_file}: cannot be understood{hint}.") from None

    def changed_files(self, *files: Path) -> dict[Path, str]:
        """Those of the files, by default of all, that are not as the status records them, each with the reason.

        They were damaged, or changed by hand. A process that trains may rewrite a file and the status while they are
        compared; they are then compared again.
        """
        names = {str(file.relative_to(self.path)) for file in files}
        status = self.status()
        while status is not None:
            changed = compare_files(self.path, status, names)
            before, status = status, self.status() if changed else None
            if status == before:
                return {self.path / name: reason for name, reason in changed.items()}
        return {}

    def warn_of_changes(self, *files: Path) -> None:
        """Warn of each of these files that is not as the status records it."""
        for file, reason in self.changed_files(*files).items():
            warnings.warn(describe_change(file, reason), stacklevel=3)

    def warn_of_results(self) -> None:
        """Warn of metrics and samples that are not as recorded, or were not when the run was resumed."""
        self.warn_of_changes(self.metrics.path, self.samples.path)
        status = self.status()
        for note in status.notes if status else ():
            warnings.warn(note, stacklevel=3)

    def unseal(self, step: int) -> None:
        """Remove the records of files from the status, because a run that starts at this step will change the files.

        So a process that is killed before it has written new ones leaves no record that its files contradict. Damage
        to the results of steps that are not trained again is kept as a note.
        """
        status = self.status()
        if status is None:
            return
        changed = self.changed_files(self.metrics.path, self.samples.path)
        found = (f"{describe_change(file, changed[file])}, before it was resumed at step {step:,}" for file in changed)
        self._write_status(status.without_records((*status.notes, *found) if step else ()))

    def _with_records(self, status: Status) -> Status:
        growing = {self.metrics.path.name: self.metrics.record(), self.samples.path.name: self.samples.record()}
        sealed = (self.training_diagnosis, self.observations.path)
        return status.model_copy(
            update={
                "files": {self.config.name: FileRecord.of(self.config)} if self.config.is_file() else {},
                "growing": {name: record for name, record in growing.items() if record is not None},
                "sealed": tuple(str(file.relative_to(self.path)) for file in sealed if file.is_file()),
                "links": {
                    str(link.relative_to(self.path)): step_of(link)
                    for link in (self.latest, self.best)
                    if link.exists()
                },
            }
        )

    def _write_status(self, status: Status) -> Status:
        self._write(self.status_file, dump_status(status))
        return status

    @property
    def other_version(self) -> str:
        """The end of an error message: the version that wrote the run, if it is not this one; else empty."""
        try:
            version = json.loads(self.status_file.read_bytes())["version"]
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        ours = __version__
        return "" if version in ("", ours) else f"; the run was written by Lamina {str(version)[:20]}, this is {ours}"

    def add_cost(self, seconds: float, memory: int) -> None:
        """Add the seconds of one attempt, and keep the largest memory."""
        before = self.cost.read() or Cost()
        self.cost.write(Cost(seconds=before.seconds + seconds, memory=max(before.memory, memory)))

    def rewind(self, step: int) -> None:
        """Remove the metrics and samples of later steps: training resumes from this one."""
        self.metrics.rewind(step, lambda line: not values_of(FINAL, line))  # those are measured again at the end
        self.samples.rewind(step)

    def _write(self, path: Path, content: bytes) -> None:
        assert self._lock.held, "claim the run folder before writing to it"
        write_file(path, content)
