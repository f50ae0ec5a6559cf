"""The inputs of a model for one batch, and the losses on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lamina.data.packed import Integers, score_cells


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of a model for one batch, `model(**inputs.arguments)`, and its labels."""

    tensors: Mapping[str, Tensor]
    lengths: Mapping[str, Integers] = field(default_factory=dict)
    """Sequence lengths, which stay on the CPU, where the model computes the shape of its attention grid."""
    labels: Tensor | None = None
    weights: Tensor | None = None
    """A weight per label: 0 for the repeated context in the evaluation of a language model; None if all are 1."""
    count: int = 0
    """The number of labels with weight 1, which the loss of the global batch is averaged over."""

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.tensors, **self.lengths}

    def attention_cells(self) -> tuple[int, int]:
        """The attention scores computed per head and layer, and how many of them are between real tokens."""
        own = list(self.lengths.values())
        pairs = [(each, each) for each in own] + ([(own[1], own[0])] if len(own) == 2 else [])  # last: cross
        computed, real = zip(*(score_cells(queries, keys) for queries, keys in pairs), strict=True)
        return sum(computed), sum(real)

    def to(self, device: torch.device | str) -> Inputs:
        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=True)

        tensors = {name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors.items()}
        return Inputs(tensors, self.lengths, move(self.labels), move(self.weights), self.count)


@dataclass(frozen=True)
class Losses:
    """Losses summed over the labels of a batch, in nats, so that batches, micro-batches and processes can be added."""

    smoothed: Tensor
    """The loss that training minimises, label smoothing included, with its graph."""
    nll: Tensor
    """The negative log-likelihood, detached."""
    count: int
