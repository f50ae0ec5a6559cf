"""The token store: a folder of memory-mapped arrays that training reads.

    store/
      manifest.json            sources, settings, and the hash of every file; written last
      tokenizer.json           or tokenizer.source.json and tokenizer.target.json
      dropped.json             the line numbers of dropped examples, by split, reason and file
      train/source.tokens.npy  the sentences of one field, one after the other, without bos and eos
      train/source.offsets.npy where each starts, and where the last one ends
      test/newstest2014/…      where a split has several sets: language pairs, test years

Token arrays are uint16 if the vocabulary allows, otherwise int32; offsets are int64. A label is a sequence of length
one. A frame of speech is a row of float32 features. The manifest contains its own hash: its presence means that the
store is finished, and any change to it is noticed. A store is opened only if every file has the hash in its manifest,
and a field is read only if its offsets rise and its tokens are in the vocabulary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, model_validator

from lamina.data.packed import index_ranges
from lamina.data.tokenizer import Tokenizer
from lamina.errors import UserError, unknown
from lamina.files.hashes import FileRecord, ManifestFormat, hash_file, hash_json
from lamina.files.verification import changed_files
from lamina.options import Options

MANIFEST = "manifest.json"
DROPPED = "dropped.json"

FORMAT = ManifestFormat("lamina-store", 2, section="manifest")
_REMEDY = "Prepare the data again with lamina prepare --replace."


def _inside(name: str) -> str:
    """A relative path inside the store; a manifest may come from anywhere."""
    if not re.fullmatch(r"[\w+.-]+(/[\w+.-]+)*", name) or ".." in name.split("/"):
        raise ValueError("not a name inside the store")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class SourceRecord(Options):
    """A source file of the store, or a set on the hub, which has its commit in place of a hash."""

    split: str
    path: str
    bytes: int
    sha256: str


class FieldRecord(Options):
    """One field of one split."""

    dtype: str
    tokens: int
    longest: int
    words: int
    """The number of words between white space in the kept examples, before truncation; 0 for labels."""
    characters: int
    truncated: int
    unknown: int = 0
    """The number of tokens that are `<unk>`."""
    width: int = 0
    """Number of features of a frame, for a field of speech; 0 for tokens and labels."""
    mean: tuple[float, ...] = ()
    """The mean of every feature over all frames."""
    deviation: tuple[float, ...] = ()
    """The standard deviation of every feature over all frames."""


class SplitRecord(Options):
    """One split: its size, its fields, and the numbers of dropped and repaired examples."""

    examples: int
    fields: dict[Name, FieldRecord]
    dropped: dict[str, int]
    repaired: dict[str, int]
    seen_in_training: int = 0
    """The number of examples whose texts all occur in one training example."""
    source_equals_target: int = 0
    """The number of examples whose source and target are the same text."""


class Manifest(Options):
    """The contents of manifest.json."""

    settings: dict[str, Any]
    sources: tuple[SourceRecord, ...]
    labels: tuple[str, ...]
    tokenizers: dict[Name, Name]
    """The tokenizer file of each text field."""
    splits: dict[Name, SplitRecord]
    files: dict[Name, FileRecord]

    @model_validator(mode="after")
    def _check_tokenizers(self) -> Manifest:
        for name in self.tokenizers.values():
            if name not in self.files:
                raise ValueError(f"the tokenizer {name} is not among the files")
        return self

    def dump(self) -> bytes:
        """The JSON file, with its own hash."""
        return FORMAT.dump(self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a store; one that is damaged, changed or of another version raises a `UserError`."""
        try:
            return cls.read_file(folder)
        except UserError as error:
            raise UserError(f"{error} {_REMEDY}") from None

    @classmethod
    def read_file(cls, folder: Path) -> Manifest:
        """Read the manifest in a folder, which may be a store or hold a copy; errors do not say what to do."""
        return cls.read(FORMAT.load(folder / MANIFEST), str(folder / MANIFEST))

    @cached_property
    def content_hash(self) -> str:
        """The hash of what training and evaluation read; where the sources were, and with which options they were
        prepared, is not part of it."""
        content = self.model_dump(mode="json", include={"labels", "tokenizers", "splits"})
        return hash_json(content | {"files": {name: self.files[name].sha256 for name in self.files if name != DROPPED}})


class Split:
    """The examples of one split: for each field, sequences of tokens."""

    def __init__(self, store: Store, name: str, record: SplitRecord) -> None:
        self.name = name
        self.record = record
        self._store = store
        self._open: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.record.fields)

    def __len__(self) -> int:
        return self.record.examples

    def lengths(self, field: str) -> np.ndarray:
        """The length of every sequence."""
        return np.diff(self._arrays(field)[1])

    def tokens(self, field: str, index: int) -> np.ndarray:
        """One sequence, as a view of the memory-mapped array."""
        tokens, offsets = self._arrays(field)
        index = range(len(self))[index]
        return tokens[offsets[index] : offsets[index + 1]]

    def gather(self, field: str, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sequences at `indices`, concatenated, and their lengths: tokens as int64, features as float32."""
        tokens, offsets = self._arrays(field)
        indices = np.asarray(indices, np.int64)
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"{self.name} has {len(self)} examples; asked for {indices.min()} … {indices.max()}")
        starts = offsets[indices]
        lengths = offsets[indices + 1] - starts
        found = tokens[index_ranges(starts, lengths)]
        if self.record.fields[field].width:
            if not np.isfinite(found).all():
                raise UserError(
                    f"{self._store.array_folder}: a feature of {self.name}/{field} is not finite. {_REMEDY}"
                )
            return found, lengths
        return found.astype(np.int64), lengths

    def _arrays(self, field: str) -> tuple[np.ndarray, np.ndarray]:
        if field not in self._open:
            if field not in self.record.fields:
                raise unknown(f"field of split {self.name!r}", field, self.fields)
            self._open[field] = self._map(field)
        return self._open[field]

    def _map(self, field: str) -> tuple[np.ndarray, np.ndarray]:
        record, folder = self.record.fields[field], self._store.array_folder
        tokens = _map_array(token_path(folder, self.name, field))
        offsets = _map_array(offset_path(folder, self.name, field))
        sound = (
            tokens.dtype == record.dtype
            and (tokens.dtype == np.float32 if record.width else tokens.dtype.kind in "iu")
            and tokens.shape == ((record.tokens, record.width) if record.width else (record.tokens,))
            and offsets.dtype == np.int64
            and offsets.shape == (len(self) + 1,)
            and offsets[0] == 0
            and offsets[-1] == record.tokens
            and bool((np.diff(offsets) >= 0).all())
        )
        if not sound:
            raise UserError(f"{folder}: the arrays of {self.name}/{field} are damaged. {_REMEDY}")
        size = 0 if record.width else self._store.num_values(field)
        if size and len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
            raise UserError(
                f"{token_path(folder, self.name, field)}: damaged, with a token that is not among the {size:,} of its "
                f"vocabulary. {_REMEDY}"
            )
        return tokens, offsets


class Store:
    """An open store; `store["train"]` is a split."""

    def __init__(self, folder: Path, manifest: Manifest, find_arrays: Callable[[], Path] | None = None) -> None:
        """A store in `folder`, whose files are not verified here.

        find_arrays: for a copy of manifest and tokenizers alone, gives the folder with the examples; it is called when
        the first of them is read.
        """
        self.folder = folder
        self.manifest = manifest
        self._find_arrays = find_arrays
        self._splits = {name: Split(self, name, record) for name, record in manifest.splits.items()}

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Open a store whose files all have the hashes in its manifest; any other raises a `UserError`."""
        store = cls.open_unverified(path)
        for name, reason in changed_files(store.folder, store.manifest.files).items():
            raise UserError(f"{store.folder / name}: {reason}, so the store is damaged. {_REMEDY}")
        return store

    @classmethod
    def open_unverified(cls, path: str | Path) -> Store:
        """Open a finished store, reading only its manifest."""
        folder = Path(path)
        if not (folder / MANIFEST).is_file():
            raise _not_a_store(folder)
        return cls(folder, Manifest.load(folder))

    @cached_property
    def array_folder(self) -> Path:
        """The folder with the arrays of the splits."""
        return self._find_arrays() if self._find_arrays else self.folder

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._splits)

    def __getitem__(self, name: str) -> Split:
        if name not in self._splits:
            raise unknown("split", name, self.splits)
        return self._splits[name]

    def sets(self, split: str) -> tuple[str, ...]:
        """The names under which `split` is stored: `split` itself, or `split/set` for each of its sets."""
        return tuple(name for name in self._splits if name == split or name.startswith(f"{split}/"))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of their ids."""
        return self.manifest.labels

    def tokenizer(self, field: str | None = None) -> Tokenizer:
        """The tokenizer of a field, which may be omitted if all fields share one."""
        files = self.manifest.tokenizers
        if field is None:
            if len(set(files.values())) != 1:
                raise UserError(f"{self.folder}: each field has its own tokenizer; ask for one of {list(files)}.")
            field = next(iter(files))
        if field not in files:
            raise unknown("text field", field, files)
        return self._tokenizers[files[field]].for_field(field)

    @property
    def is_empty(self) -> bool:
        """Whether there is no example in any split, as in the run folder of an imported model."""
        return not any(record.examples for record in self.manifest.splits.values())

    def num_values(self, field: str) -> int:
        """The number of values that a token of the field can have: the size of its vocabulary or of the label set."""
        return len(self.tokenizer(field)) if field in self.manifest.tokenizers else len(self.labels)

    @cached_property
    def _tokenizers(self) -> dict[str, Tokenizer]:
        loaded = {}
        for name in sorted(set(self.manifest.tokenizers.values())):
            if hash_file(self.folder / name) != self.manifest.files[name].sha256:
                raise UserError(
                    f"{self.folder / name}: damaged, not the tokenizer that {MANIFEST} beside it describes; copy it "
                    "again from where the data was prepared."
                )
            loaded[name] = Tokenizer.load(self.folder / name)
        return loaded

    def dropped(self) -> dict[str, Any]:
        """The line numbers of dropped examples, by split, reason and file."""
        content: dict[str, Any] = json.loads((self.folder / DROPPED).read_bytes())
        return content

    def verify(self) -> list[str]:
        """A message for every file of the store, and every source file that still exists, whose content has changed."""
        problems = []
        for name, record in self.manifest.files.items():
            file = self.folder / name
            if not file.is_file():
                problems.append(f"{file}: missing.")
            elif hash_file(file) != record.sha256:
                problems.append(f"{file}: changed since the store was made.")
        for source in self.manifest.sources:
            path = Path(source.path)
            if path.is_file() and hash_file(path) != source.sha256:
                problems.append(f"{path} ({source.split}): the source changed since the store was made.")
        return problems


def token_path(folder: Path, split: str, field: str) -> Path:
    return folder / split / f"{field}.tokens.npy"


def offset_path(folder: Path, split: str, field: str) -> Path:
    return folder / split / f"{field}.offsets.npy"


def partial_path(folder: Path) -> Path:
    """The folder that a store is written to before it is renamed."""
    return folder.with_name(f".{folder.name}.lamina-partial")


def _map_array(path: Path) -> np.ndarray:
    try:
        # A plain array: slicing numpy's memmap class takes several times as long.
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not a valid array ({error}). {_REMEDY}") from None
    return array


def _not_a_store(folder: Path) -> UserError:
    """The error for a path without a manifest. No message advises to delete what may be the user's own."""
    if partial_path(folder).exists():
        return UserError(
            f"{folder}: unfinished, because lamina prepare was interrupted or is still running; run it again."
        )
    if folder.is_file():
        what = f"; prepare it with lamina prepare {folder}, and name its output" if folder.suffix == ".toml" else ""
        return UserError(f"{folder}: a file, but a store is a folder that lamina prepare makes{what}.")
    if folder.exists():
        return UserError(f"{folder}: not a store, for it has no {MANIFEST}; name a folder that lamina prepare made.")
    here = "" if folder.is_absolute() else f" (relative to the working directory, {Path.cwd()})"
    return UserError(f"{folder}: no such store{here}; make it with lamina prepare, or name the folder it is in now.")
