"""Data sets of the Hugging Face hub, streamed. Needs the extra `hub`, and the network: `format = "hub"` asks for it.

A set is written `id`, `id:configuration` or `id:configuration:split`; the split defaults to the one being prepared.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lamina.data.readers.base import Example, LabelSet, Notes, Reader, Request
from lamina.data.readers.columns import keys_of, make_example
from lamina.data.readers.jsonl import look_up
from lamina.errors import UserError

_HUB_SPLITS = {"train": "train", "valid": "validation", "test": "test"}


class HubSet(NamedTuple):
    """One split of one data set on the hub."""

    id: str
    configuration: str | None
    split: str

    def __str__(self) -> str:
        return ":".join((self.id, self.configuration or "", self.split))


@dataclass(frozen=True)
class HubSets(Reader):
    """Sets on the hub; `columns` maps each field to its column, nested ones as `translation.de`."""

    format = "hub"
    reads_files = False
    sets: tuple[HubSet, ...]
    columns: Mapping[str, str]
    labels: LabelSet
    files: tuple[str, ...] = field(default=(), init=False)

    @classmethod
    def open(cls, request: Request) -> HubSets:
        sets = tuple(_parse(name, _HUB_SPLITS[request.split]) for name in request.sources)
        return cls(sets, keys_of(cls.format, request.columns), request.label_set)

    def check(self) -> None:
        _import_extra("datasets")

    def read(self, notes: Notes) -> Iterator[Example]:
        for chosen in self.sets:
            for number, record in enumerate(_stream(chosen), start=1):
                values = {field: look_up(record, key, f"{chosen}, row {number}") for field, key in self.columns.items()}
                example = make_example(values, self.labels, str(chosen), number, notes, self.columns)
                if example is not None:
                    yield example

    def revisions(self) -> dict[str, str]:
        """The commit of each set on the hub."""
        api = _import_extra("huggingface_hub").HfApi()
        revisions = {}
        for chosen in self.sets:
            with _refusals_explained(chosen):
                revisions[str(chosen)] = str(api.dataset_info(chosen.id).sha)
        return revisions


def _parse(name: str, split: str) -> HubSet:
    parts = name.split(":")
    if not parts[0] or len(parts) > 3:
        raise UserError(f"hub set {name!r}: write id, id:configuration or id:configuration:split.")
    configuration = parts[1] if len(parts) > 1 and parts[1] else None
    return HubSet(parts[0], configuration, parts[2] if len(parts) == 3 else split)


def _stream(chosen: HubSet) -> Iterator[Mapping[str, object]]:
    datasets = _import_extra("datasets")
    with _refusals_explained(chosen):  # streaming never fills the disk
        yield from datasets.load_dataset(chosen.id, chosen.configuration, split=chosen.split, streaming=True)


@contextmanager
def _refusals_explained(chosen: HubSet) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the libraries raise dozens of kinds for "not there", "not allowed" and "no network"
        raise UserError(
            f"{chosen}: cannot be read from the hub ({type(error).__name__}: {error}). Check name and network, or "
            f"download the files yourself and prepare them with format = 'jsonl' or 'tsv'."
        ) from error


def _import_extra(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"format = 'hub' needs {module}; install it with `pip install 'lamina[hub]'`.") from None
