"""The base class of readers, the examples that they yield, and the counts of repaired and dropped examples.

To add a reader, see CONTRIBUTING: it is one new file in this folder.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

from lamina.data.speech.recordings import Recording
from lamina.errors import UserError, nearest
from lamina.files.text_lines import read_lines

EMPTY = "empty"
EDGE_SPACE = "white space at the edges removed"

Unit = Literal["line", "paragraph"]


class Example(NamedTuple):
    """One example and where it was read, so that later errors can name file and line."""

    fields: Mapping[str, str | int | Recording]
    """Texts, labels, and recordings of speech."""
    file: str
    line: int


class Notes:
    """Counts of repaired and dropped examples, and the line numbers of those dropped (eight bytes each)."""

    def __init__(self) -> None:
        self.repaired: Counter[str] = Counter()
        self._dropped: dict[str, dict[str, array[int]]] = {}

    def drop(self, reason: str, file: str, line: int) -> None:
        """Record that the example at `line` was dropped."""
        self._dropped.setdefault(reason, {}).setdefault(file, array("q")).append(line)

    def dropped(self) -> dict[str, int]:
        """The number of dropped examples, by reason."""
        return {reason: sum(map(len, files.values())) for reason, files in self._dropped.items()}

    def dropped_lines(self) -> dict[str, dict[str, list[int]]]:
        """The line numbers that were dropped, by reason and file."""
        return {reason: {file: list(lines) for file, lines in files.items()} for reason, files in self._dropped.items()}


@dataclass(frozen=True)
class LabelSet:
    """The label set; a label's id is its position in it."""

    names: tuple[str, ...]
    collected: set[str] | None = None
    """The labels found so far, which all get the id 0, if the label set is not known yet; otherwise None."""

    def identify(self, value: object, where: str) -> int:
        """The id of a label."""
        name = str(value)
        if self.collected is not None:
            self.collected.add(name)
            return 0
        if not self.names:
            raise UserError(f"{where}: a label, but no label set; name it, for example labels = ['no', 'yes'].")
        if name not in self.names:
            guess = nearest(name, self.names)
            hint = f" Did you mean {guess!r}?" if guess else ""
            raise UserError(f"{where}: label {name!r} is not in the set {list(self.names)}.{hint}")
        return self.names.index(name)


@dataclass(frozen=True)
class Request:
    """The options of reading one split; a reader uses those that concern its format."""

    sources: tuple[str, ...]
    """Files, or names of sets for formats that read no files."""
    split: str
    columns: Mapping[str, int | str]
    """The column or key of each field."""
    labels: tuple[str, ...] = ()
    """The label set; a label's id is its position."""
    unit: Unit = "line"
    collected: set[str] | None = None
    """Given to find the label set: labels are added to it instead of being looked up."""

    @property
    def label_set(self) -> LabelSet:
        return LabelSet(self.labels, self.collected)


class Reader:
    """Reads the examples of one format. A subclass is found by its file: `tsv.py` reads the format `tsv`."""

    format: ClassVar[str]
    reads_files: ClassVar[bool] = True
    """Whether `train`, `valid` and `test` name files; otherwise they name sets in a notation of the reader's."""
    has_labels: ClassVar[bool] = False
    """Whether the format itself has labels, without a column chosen for them."""
    keeps_empty: ClassVar[bool] = False
    """Whether an example without tokens is kept in the store rather than dropped."""

    files: tuple[str, ...]
    """The files read, in order; empty for formats that read none."""

    @classmethod
    def open(cls, request: Request) -> Self:
        """The reader for a request; nothing is read yet."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise errors that can be found before reading: missing files, unequal line counts, missing columns."""
        for file in self.files:
            next(read_lines(file))

    def read(self, notes: Notes) -> Iterator[Example]:
        """The examples, one at a time."""
        raise NotImplementedError

    @property
    def label_names(self) -> tuple[str, ...]:
        """The label set that the format itself defines; empty if it defines none."""
        return ()

    def revisions(self) -> dict[str, str]:
        """The version of each set that is not a file, in place of a file's hash."""
        return {}


def is_blank(text: str) -> bool:
    """Whether a text is empty or white space only."""
    return not text or text.isspace()


def trim(text: str) -> str:
    """A text without white space at its edges: the rule for all text, when data is prepared and when a model reads or
    scores a line."""
    return text.strip()


def read_trimmed(reader: Reader, notes: Notes) -> Iterator[Example]:
    """The examples of a reader with trimmed texts; each text that changes is counted as repaired."""
    for example in reader.read(notes):
        fields = {name: trim(value) if isinstance(value, str) else value for name, value in example.fields.items()}
        changed = sum(fields[name] != value for name, value in example.fields.items())
        if changed:
            notes.repaired[EDGE_SPACE] += changed
            example = example._replace(fields=fields)
        yield example
