"""The run folder: what training writes, and everything that draws or compares only reads.

    runs/<name>/
      config.toml  status.json  metrics.jsonl  samples.txt  tokenizer.json  manifest.json
      checkpoints/step-00001000/ …  latest, best -> …
      average/
      diagnosis/

Looking at a run folder changes nothing in it; whoever writes claims it first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError

from lamina.errors import UserError
from lamina.files.atomic import sync_folder, write_file
from lamina.files.json_lines import JsonLines
from lamina.files.lock import Lock
from lamina.options import Options
from lamina.version import __version__

State = Literal["running", "finished", "failed", "stopped"]


class Status(Options):
    """How a run stands."""

    state: State
    """`failed` is a result, a run that diverged; `stopped` one that was interrupted and can be resumed. A run that is
    `running` though nobody holds its lock was killed."""
    step: int
    """The last step done."""
    reason: str = ""
    """Why it failed or stopped."""
    started: str
    """When it was first started; ISO 8601, UTC."""
    updated: str
    """When this was written."""
    version: str = ""
    """The Lamina that wrote it."""

    @property
    def has_ended(self) -> bool:
        """Whether there is a result: started again, the run would end the same way."""
        return self.state in ("finished", "failed")


class RunFolder:
    """The files of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.samples = self.path / "samples.txt"
        self.checkpoints = self.path / "checkpoints"
        self.average = self.path / "average"
        self.diagnosis = self.path / "diagnosis"
        self.training_diagnosis = self.diagnosis / "training.json"
        self.metrics = JsonLines(self.path / "metrics.jsonl")
        self._cost = self.path / "cost.json"
        self._status = self.path / "status.json"
        self._lock = Lock(self.path / ".lock")

    def claim(self) -> Self:
        """Make the folder if need be, and keep every other process from writing to it until this one ends."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self.diagnosis.mkdir(exist_ok=True)
            for folder in (self.path, self.path.parent):
                sync_folder(folder)
            self._lock.acquire()
        except OSError as error:
            raise UserError(f"{self.path}: no run folder can be made there ({error.strerror}).") from error
        return self

    def release(self) -> None:
        self.metrics.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def store_config(self, text: str) -> None:
        self._write(self.config, text)

    def set_status(self, state: State, step: int, reason: str = "") -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        before = self.status()
        started = before.started if before else now
        status = Status(state=state, step=step, reason=reason, started=started, updated=now, version=__version__)
        self._write(self._status, status.model_dump_json(indent=1) + "\n")

    def status(self) -> Status | None:
        """How the run stands; None if it never started."""
        try:
            return Status.model_validate_json(self._status.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValidationError:
            hint = self.other_version or "; damaged, or not Lamina's: delete it"
            raise UserError(f"{self._status}: cannot be understood{hint}.") from None

    @property
    def other_version(self) -> str:
        """The end of a message about something strange here, if another version wrote it; else nothing."""
        try:
            version = json.loads(self._status.read_bytes())["version"]
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        ours = __version__
        return "" if version in ("", ours) else f"; the run was written by Lamina {str(version)[:20]}, this is {ours}"

    def cost(self) -> tuple[float, int]:
        """Seconds over all attempts, and the largest resident memory in bytes; zeros if nothing was written."""
        try:
            cost = json.loads(self._cost.read_bytes())
            return float(cost["seconds"]), int(cost["memory"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0, 0

    def add_cost(self, seconds: float, memory: int) -> None:
        """Add the seconds of one attempt; of memory the largest counts."""
        before, largest = self.cost()
        write_file(self._cost, json.dumps({"seconds": before + seconds, "memory": max(largest, memory)}).encode())

    def add_samples(self, step: int, lines: Iterable[str]) -> None:
        """Append to samples.txt."""
        assert self._lock.held
        try:
            with self.samples.open("a", encoding="utf-8") as handle:
                handle.write(f"step {step}\n" + "".join(f"  {line}\n" for line in lines))
        except OSError as error:
            raise UserError(f"{self.samples}: cannot be written ({error.strerror}); make room and resume.") from error

    def rewind(self, step: int) -> None:
        """Drop what metrics and samples say of later steps: training goes on from this one."""
        self.metrics.rewind(step)
        if self.samples.exists():
            said = re.split(r"^(?=step \d+$)", self.samples.read_text("utf-8", "replace"), flags=re.MULTILINE)
            kept = [each for each in said if (found := re.match(r"step (\d+)\n", each)) and int(found[1]) <= step]
            self._write(self.samples, "".join(kept))

    def _write(self, path: Path, text: str) -> None:
        assert self._lock.held, "claim the run folder before writing to it"
        write_file(path, text.encode())
