"""What one forward and backward pass looked like from inside: the material that measures are made of.

A record says nothing of how it was taken. Lamina's own stacks and foreign modules are recorded by different code
(`own`, `foreign`) and measured by the same. What could not be seen is None, and a measure that needs it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from lamina.model.stack import Stack
from lamina.residual.base import Place


@dataclass(eq=False)
class Seen:
    """A tensor that passed, and how large the gradient of the loss was when it came back."""

    value: Tensor
    """Detached; (…, dim). All positions, padding included where the model computes on it."""
    gradient_norm: float | None = None
    """The Frobenius norm of ∂L/∂value; None before the backward pass, or where no gradient came."""


@dataclass(eq=False)
class NormRecord:
    """One norm at work."""

    path: str
    """The module's path in the model."""
    module: nn.Module
    sublayer: int | None
    """The sub-layer of the stack that it belongs to, from 0; None at the stack's ends."""
    input: Seen
    output: Seen


@dataclass(eq=False)
class SublayerRecord:
    """One sub-layer. Where a foreign layer could not be taken apart, the whole layer, of kind `layer`."""

    place: Place
    read: Seen
    """What went into it."""
    branch: Seen | None
    """What it answered."""
    before: tuple[Seen, ...]
    """The parts of the state it found, named by the stack's `streams`."""
    after: tuple[Seen, ...]
    """The parts of the state it left."""


@dataclass(eq=False)
class StackRecord:
    """One stack, from its input to its output."""

    name: str
    """`encoder`, `decoder`, `stack`, or a foreign module's path."""
    streams: tuple[str, ...]
    input: Seen
    sublayers: list[SublayerRecord]
    norms: list[NormRecord]
    output: Seen
    """After whatever norm ends it."""
    own: Stack | None = None
    """Lamina's stack, if it is one: its sites can be run again."""
    real: Tensor | None = None
    """True at positions that hold a token, of the shape of `value` without its last dimension; None when all do."""

    @property
    def num_layers(self) -> int:
        return 1 + max(each.place.layer for each in self.sublayers)


@dataclass(frozen=True)
class MatrixName:
    """Which weight matrix: `encoder`, layer 3, `query`."""

    path: str
    stack: str
    layer: int | None
    """From 0; None for embeddings and heads."""
    kind: str
    """`query`, `key`, `value`, `output`, `inner`, `gate`, `outer`, `embedding`; for foreign matrices what was found
    out from their names, else the last parts of the path."""


@dataclass(eq=False)
class Record:
    """One pass over one batch."""

    loss: float
    stacks: list[StackRecord]
    gradients: dict[MatrixName, Tensor] = field(default_factory=dict)
    """∂L/∂W of every weight matrix, detached, in the order of the model. Several records are averaged by measures
    that want the expected gradient."""
