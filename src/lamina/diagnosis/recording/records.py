"""Records of one forward and backward pass, from which measures are taken.

A record does not depend on how it was made: Lamina's own stacks and foreign modules are recorded by different code
(`own`, `foreign`) and measured by the same. What could not be recorded is None; a measure that needs it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.recording.calls import Calls
from lamina.diagnosis.recording.parameters import ParameterRecord
from lamina.diagnosis.recording.ranges import ModuleRange, NonFinite
from lamina.model.stack import Stack
from lamina.residual.base import Place


@dataclass(eq=False)
class RecordedTensor:
    """A tensor of the forward pass and the norm of its gradient."""

    value: Tensor
    """Detached; (…, dim). All positions, padding included where the model computes on it."""
    gradient_norm: float | None = None
    """The Frobenius norm of ∂L/∂value; None before the backward pass, or where no gradient arrived."""


@dataclass(eq=False)
class NormRecord:
    """The input and output of one normalisation."""

    path: str
    """The module's path in the model."""
    module: nn.Module
    sublayer: int | None
    """The sub-layer of the stack that it belongs to, from 0; None before the first and after the last."""
    input: RecordedTensor
    output: RecordedTensor


@dataclass(eq=False)
class SublayerRecord:
    """One sub-layer; where a foreign layer could not be divided into sub-layers, the whole layer, of kind `layer`."""

    place: Place
    read: RecordedTensor
    """The input of the sub-layer's function."""
    branch: RecordedTensor | None
    """The output of the sub-layer's function, before the residual sum."""
    before: tuple[RecordedTensor, ...]
    """The residual streams before this sub-layer, named by the stack's `streams`."""
    after: tuple[RecordedTensor, ...]
    """The residual streams after this sub-layer."""


@dataclass(eq=False)
class StackRecord:
    """One stack of layers."""

    name: str
    """`encoder`, `decoder`, `stack`, or a foreign module's path."""
    streams: tuple[str, ...]
    """The names of its residual streams."""
    input: RecordedTensor
    sublayers: list[SublayerRecord]
    norms: list[NormRecord]
    output: RecordedTensor
    """The output, after a final norm if there is one."""
    own: Stack | None = None
    """Lamina's stack, whose residual sites can be run again; None for a foreign module."""
    repeated: list[int] = field(default_factory=list)
    """The layers, from 0, in which the stream is added to itself without a norm in between, once for each such sum."""
    real: Tensor | None = None
    """True at positions that hold a token, of the shape of `value` without its last dimension; None when all do."""

    @property
    def num_layers(self) -> int:
        return 1 + max(each.place.layer for each in self.sublayers)


@dataclass(frozen=True)
class MatrixName:
    """Identifies a weight matrix by its stack, layer and kind."""

    path: str
    """The parameter's path; of one of three matrices in one parameter, followed by its kind in brackets."""
    stack: str
    layer: int | None
    """From 0; None for embeddings and heads."""
    kind: str
    """`query`, `key`, `value`, `output`, `inner`, `gate`, `outer`, `embedding`; for foreign matrices the kind that
    follows from their names, else the last parts of the path."""
    cross_attention: bool = False
    """Whether it belongs to cross-attention, where a decoder layer has queries of both kinds of attention."""
    module: str = ""
    """The path of the module whose weight it is; empty where that is not a module's `weight`."""

    @property
    def location(self) -> Location:
        """Stack, layer from 1 and kind; the module of matrices that belong to no layer."""
        if self.layer is None:
            return Location(module=self.module or self.path)
        return Location(
            stack=self.stack,
            layer=self.layer + 1,
            sublayer_kind="cross-attention" if self.cross_attention else None,
            matrix=self.kind,
        )


@dataclass(eq=False)
class Record:
    """One forward and backward pass over one batch."""

    loss: float
    stacks: list[StackRecord]
    gradients: dict[MatrixName, Tensor] = field(default_factory=dict)
    """∂L/∂W of every weight matrix, detached, in the order of the model."""
    parameters: list[ParameterRecord] = field(default_factory=list)
    """Every parameter, with the reason where it has no gradient, in the order of the model."""
    ranges: list[ModuleRange] = field(default_factory=list)
    """The largest values of every module, in the order of the forward pass."""
    calls: Calls = field(default_factory=Calls)
    """Attention, activations, dropout, tokens and the loss."""
    non_finite: NonFinite | None = None
    """The first value that is not finite; None where all are."""
