"""`status.json`: the state of a run, and records of those of its files that no other hash covers.

The first key of the file is the hash of the rest. Files that grow are recorded up to their size when the status was
written: at the start, at every checkpoint and at the end. Lines added later are no damage, but fewer bytes, or other
ones, are. Before a run changes a recorded file in any other way, its record is removed from the status (see
`RunFolder.unseal`), so a process that is killed at any time leaves no record that a file contradicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Literal

from lamina.files.hashes import FileRecord, seal_json, unseal_json
from lamina.options import Options
from lamina.run_folder.checkpoints import name_step, step_of

RunState = Literal["running", "finished", "failed", "too short", "stopped"]

DIVERGED = 3
"""The exit code of a run that diverged, which is a result: started again, it would end the same way."""
REQUEUE = 75
"""The exit code of a run that was interrupted and should be put back into the queue."""
INTERRUPTED = 130
"""The exit code of a run that was interrupted by Ctrl-C, so that nothing should start it again."""


class Status(Options):
    """The status of a run."""

    state: RunState
    """`failed` is a result, a run that diverged or is no better than a unigram model; `too short` one that is no better
    either, but has had too few steps to be judged; `stopped` one that was interrupted and can be resumed. A run that
    is `running` although no process holds its lock was killed."""
    step: int
    """The number of steps done."""
    reason: str = ""
    """Why it failed, cannot be judged, or stopped."""
    started: str
    """When it was first started; ISO 8601, UTC."""
    updated: str
    """When this status was written."""
    version: str = ""
    """The version of Lamina that wrote it."""
    run: str = ""
    """The identity of the run, which its checkpoints have too; empty if an earlier version started it."""
    signal: str = ""
    """The signal that stopped it, such as `SIGTERM`; empty if none did."""
    planned_steps: int | None = None
    """The number of steps of the whole run; approximate where its length is given in epochs. None if an earlier version
    wrote the status."""
    files: dict[str, FileRecord] = {}
    """Size and hash of the config."""
    growing: dict[str, FileRecord] = {}
    """Size and hash that the files of metrics and samples had when this status was written."""
    sealed: tuple[str, ...] = ()
    """Results that contain their own hash, so that only their existence is recorded."""
    links: dict[str, int] = {}
    """The steps of the checkpoints that `latest` and `best` point to."""
    notes: tuple[str, ...] = ()
    """Damage to results that was found when the run was resumed."""

    @property
    def has_ended(self) -> bool:
        """Whether there is a result: started again, the run would end the same way."""
        return self.state in ("finished", "failed", "too short")

    @property
    def exit_code(self) -> int:
        """The exit code of the process that trained the run."""
        if self.state == "stopped":
            return INTERRUPTED if self.signal == "SIGINT" else REQUEUE
        return DIVERGED if self.state == "failed" else 0

    def without_records(self, notes: tuple[str, ...]) -> Status:
        """The same status without records of files."""
        return self.model_copy(update={"files": {}, "growing": {}, "sealed": (), "links": {}, "notes": notes})


def dump_status(status: Status) -> bytes:
    """The content of the file, with its own hash."""
    return seal_json(status.model_dump_json(indent=1).encode() + b"\n")


def read_status(file: Path) -> Status | None:
    """The status in a file, None if there is none; raises `Damaged` or a `ValidationError` if it was changed."""
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Status.model_validate_json(unseal_json(file, content))


def compare_files(folder: Path, status: Status, names: Collection[str] = ()) -> dict[str, str]:
    """Those of the names, or of all that are recorded, whose files are not as recorded, each with the reason."""
    may_grow = status.state == "running"
    compare: dict[str, Callable[[Path], str]] = {
        **{name: partial(_compare, record=record) for name, record in status.files.items()},
        **{name: partial(_compare, record=record, may_grow=may_grow) for name, record in status.growing.items()},
        **{name: lambda file: "" if file.is_file() else "missing" for name in status.sealed},
        **{name: partial(_compare_link, step=step, last=status.step) for name, step in status.links.items()},
    }
    reasons = {name: compare[name](folder / name) for name in compare if name in names or not names}
    return {name: reason for name, reason in reasons.items() if reason}


def describe_change(file: Path, reason: str) -> str:
    """A sentence about a file that is not as recorded."""
    return f"{file}: {reason}, so it was damaged or changed by hand"


def _compare(file: Path, record: FileRecord, may_grow: bool = False) -> str:
    """Why a file differs from its record; empty if it does not."""
    try:
        size = file.stat().st_size
        if size < record.bytes or size > record.bytes and not may_grow:
            return f"{size:,} bytes long instead of {record.bytes:,}"
        with file.open("rb") as handle:
            found = hashlib.sha256(handle.read(record.bytes)).hexdigest()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == record.sha256 else "its content has changed"


def _compare_link(link: Path, step: int, last: int) -> str:
    """Why a link does not point to the checkpoint of `step`; one saved after the status was written is right, too."""
    if not link.exists():
        return f"missing, it pointed to {name_step(step)}"
    try:
        found = step_of(link)
    except ValueError:
        return f"points to {link.resolve().name} instead of {name_step(step)}"
    return "" if found == step or found > last else f"points to {name_step(found)} instead of {name_step(step)}"
