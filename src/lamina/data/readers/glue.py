"""The sentence-pair files of the GLUE benchmark: TSV with a header, and no labels in the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import Example, LabelSet, Notes, Reader, Request
from lamina.data.readers.columns import LABEL
from lamina.data.readers.tsv import TsvFiles
from lamina.errors import UserError
from lamina.files.text_lines import read_lines

_FIRST = ("#1 String", "sentence1", "question1")
_SECOND = ("#2 String", "sentence2", "question2")
_LABEL_SETS = {"Quality": ("0", "1"), "label": ("entailment", "not_entailment")}  # MRPC; RTE


@dataclass(frozen=True)
class GlueFiles(Reader):
    """Pairs `first`, `second` and, where the file has it, `label`; `labels` replaces the task's own set."""

    format = "glue"
    has_labels = True
    files: tuple[str, ...]
    labels: LabelSet

    @classmethod
    def open(cls, request: Request) -> GlueFiles:
        return cls(request.sources, request.label_set)

    def check(self) -> None:
        for file in self.files:
            self._table(file).check()

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            yield from self._table(file).read(notes)

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels.names or self._table(self.files[0]).labels.names

    def _table(self, file: str) -> TsvFiles:
        header = next(read_lines(file)).split("\t")
        columns = {"first": _pick(header, _FIRST, file), "second": _pick(header, _SECOND, file)}
        label = next((name for name in _LABEL_SETS if name in header), None)
        if label is not None:
            columns[LABEL] = label
        own = _LABEL_SETS[label] if label is not None else ()
        return TsvFiles((file,), columns, LabelSet(self.labels.names or own, self.labels.collected))


def _pick(header: list[str], names: tuple[str, ...], file: str) -> str:
    for name in names:
        if name in header:
            return name
    raise UserError(f"{file}, line 1: no column called {' or '.join(map(repr, names))}; there are {header}.")
