"""Other beam searches, asked for the same work: a model of the same size, the same sentences, as many decoder steps.

Each module builds one peer, `build(options, beam)`, with random weights. Peers that install on no current Python, or
ask for half a data-science kit, are imported past what decoding does not need (`stand_ins`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from lamina.model.options import ModelOptions

PYTORCH = {
    "Hugging Face": "hugging_face",
    "fairseq": "fairseq",
    "OpenNMT-py": "opennmt",
    "JoeyNMT": "joeynmt",
}
NATIVE = {"CTranslate2": "ctranslate2"}
INT8 = {"CTranslate2 int8": "ctranslate2_int8"}
FIRST_WORD = 10
"""Ids below it are special in some library; the last word is padding in another."""

Tokens = list[int]


class Group(NamedTuple):
    """Sentences that get outputs of one length."""

    sources: list[Tokens]
    """Without their ends; the longest first."""
    steps: int
    """Decoder steps of every search: tokens of an output, the end included where there is one."""


class Searcher(Protocol):
    decoder_layer: nn.Module | None
    """Called once for each decoder step; None where no module can be watched."""

    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        """The best output of each source, so many sources at a time."""
        ...


def build_peer(name: str, options: ModelOptions, beam: int) -> Searcher:
    """Raises ImportError where the peer is missing."""
    module = import_module(f"{__name__}.{(PYTORCH | NATIVE | INT8)[name]}")
    torch.manual_seed(1)
    logging.disable(logging.INFO)
    try:
        return module.build(options, beam)
    finally:
        logging.disable(logging.NOTSET)


def batches(group: Group, batch_size: int) -> Iterator[list[Tokens]]:
    for first in range(0, len(group.sources), batch_size):
        yield group.sources[first : first + batch_size]


def pad(sources: list[Tokens], end: int, padding: int) -> Tensor:
    """(sentences, length), every source with its end."""
    rows = [torch.tensor([*source, end]) for source in sources]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
