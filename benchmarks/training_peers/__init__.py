"""Training steps of other libraries on the same work: a model of the same size, the same batch, the same optimiser.

Each module builds one contender, `build(options)`, with random weights; its dropout is set to that of the options where
the library has the place. Differences that remain are its `note`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.model.options import ModelOptions

TRANSLATION = {
    "Hugging Face Marian": "marian",
    "x-transformers": "x_transformers",
    "torch.nn.Transformer": "torch_nn",
    "fairseq": "fairseq",
    "OpenNMT-py": "opennmt",
}
LANGUAGE_MODELS = {
    "Hugging Face GPT-2": "gpt2",
    "x-transformers": "x_transformers_lm",
    "plain SDPA": "plain",
}
LAMINA = "Lamina"
FIRST_WORD, IGNORED = 10, -100
"""Ids below the first word are special in some library; labels of padding have the other number."""


@dataclass(frozen=True)
class Batch:
    """Sentences of random words, packed and padded; a language model has no sources."""

    sources: list[list[int]]
    targets: list[list[int]]

    @property
    def source_lengths(self) -> np.ndarray:
        return np.array([len(each) for each in self.sources], np.int64)

    @property
    def target_lengths(self) -> np.ndarray:
        return np.array([len(each) for each in self.targets], np.int64)

    def padded(self, padding: int) -> tuple[Tensor, Tensor, Tensor]:
        """Sources, targets and labels, (sentences, length) each; the label of a token is itself."""
        labels = _pad(self.targets, IGNORED)
        return _pad(self.sources, padding), _pad(self.targets, padding), labels


def _pad(rows: list[list[int]], padding: int) -> Tensor:
    if not rows:
        return torch.empty(0, 0, dtype=torch.int64)
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding)


class Contender(Protocol):
    model: nn.Module
    note: str
    """What differs from Lamina's model; empty if nothing does."""

    def prepare(self, batch: Batch) -> object:
        """The batch in the library's own form, made before the clock starts."""
        ...

    def loss(self, batch: object) -> Tensor:
        """The mean cross-entropy over all words of the vocabulary and all real target tokens."""
        ...


class Padded:
    """A contender whose model reads padded batches; a subclass computes the logits."""

    model: nn.Module
    note = ""
    padding = 0

    def prepare(self, batch: Batch) -> object:
        return batch.padded(self.padding)

    def loss(self, batch: object) -> Tensor:
        source, target, labels = batch  # type: ignore[misc]
        return F.cross_entropy(self.logits(source, target).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError


def build_contender(name: str, options: ModelOptions) -> Contender:
    """Raises ImportError where the library is missing."""
    known = LANGUAGE_MODELS if options.kind == "decoder" else TRANSLATION
    module = import_module(f"{__name__}.{known.get(name, 'lamina_model')}")
    torch.manual_seed(1)
    logging.disable(logging.WARNING)
    try:
        return module.build(options)
    finally:
        logging.disable(logging.NOTSET)
