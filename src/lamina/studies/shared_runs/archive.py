"""`runs.jsonl`: the numbers of all runs of studies, a line each, by the key of what they depend on.

A run is found again on another day and on another machine without its weights. Lines are only added; of two lines with
one key the later counts, with the measurements of both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.studies.shared_runs.numbers import RunNumbers

RUNS = "runs.jsonl"


class RunArchive:
    """The numbers in a folder, and those of further folders, which are only read."""

    def __init__(self, folder: Path, others: Iterable[Path] = ()) -> None:
        self.file = folder / RUNS
        self._kept: dict[str, RunNumbers] = {}
        for each in (*others, folder):
            for numbers in read_lines(each / RUNS):
                self._keep(numbers)

    def find(self, key: str) -> RunNumbers | None:
        return self._kept.get(key)

    def add(self, numbers: RunNumbers) -> None:
        """Add a line to the file of the folder."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as handle:
            handle.truncate(self.file.read_bytes().rfind(b"\n") + 1)  # of a process that was killed while it wrote
            handle.write(numbers.model_dump_json(exclude_defaults=True).encode() + b"\n")
            handle.flush()
            os.fsync(handle.fileno())
        self._keep(numbers)

    def _keep(self, numbers: RunNumbers) -> None:
        before = self._kept.get(numbers.key)
        measured = {**(before.measured if before else {}), **numbers.measured}
        self._kept[numbers.key] = numbers.model_copy(update={"measured": measured})

    def write(self, file: Path, keys: Iterable[str]) -> None:
        """Write the runs of these keys to another file, one line each, sorted by key."""
        lines = [self._kept[key].model_dump_json(exclude_defaults=True) for key in sorted(set(keys) & set(self._kept))]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, "".join(f"{line}\n" for line in lines).encode())


def read_lines(file: Path) -> Iterator[RunNumbers]:
    """The lines of a file; an incomplete last one, left by a process that was killed, is dropped."""
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        try:
            yield RunNumbers.model_validate_json(line)
        except ValidationError as error:
            raise UserError(
                f"{file}:{number}: not the numbers of a run; delete the line, and the run is trained again"
            ) from error
