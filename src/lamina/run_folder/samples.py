"""`samples.jsonl`: what the model generates for a few examples at each validation, one example to a line."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.files.hashes import FileRecord
from lamina.files.json_lines import JsonLines

if TYPE_CHECKING:
    from lamina.tasks.base import SampleOutput


class SamplesFile:
    """The samples of a run, in the order of their steps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonLines(path)

    def append(self, step: int, outputs: Iterable[SampleOutput]) -> None:
        for output in outputs:
            self._lines.append(step, asdict(output))

    def read(self) -> Iterator[tuple[int, SampleOutput]]:
        """Step and output of every line; a line that is no sample is left out with a warning."""
        from lamina.tasks.base import SampleOutput  # not before: it imports torch

        for line in self._lines.read():
            try:
                yield line["step"], SampleOutput(str(line["source"]), str(line["reference"]), str(line["output"]))
            except KeyError as missing:
                warnings.warn(f"{self.path}: a line of step {line['step']} has no {missing}; left out.", stacklevel=2)

    def last(self) -> list[SampleOutput]:
        """The samples of the last validation."""
        found = list(self.read())
        return [output for step, output in found if step == found[-1][0]]

    def rewind(self, step: int) -> None:
        """Drop the samples of later steps."""
        self._lines.rewind(step)

    def record(self) -> FileRecord | None:
        """Size and hash of the complete lines; None if there is no file."""
        return self._lines.record()

    def close(self) -> None:
        self._lines.close()
