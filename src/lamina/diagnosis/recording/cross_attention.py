"""Which weight matrices belong to cross-attention.

By stack, layer and kind alone the queries of a decoder layer's two attentions are one; a watch tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.recording.own import own_stacks
from lamina.diagnosis.recording.structure import is_cross_attention

CROSS = "cross-"


def set_apart(model: nn.Module, matrices: Sequence[NamedMatrix]) -> list[NamedMatrix]:
    """The same matrices, those of cross-attention under a kind of their own, such as `cross-query`."""
    crossing = {id(weight) for attention in _cross_attentions(model) for weight in attention.parameters()}
    return [
        replace(each, name=replace(each.name, kind=CROSS + each.name.kind)) if id(each.parameter) in crossing else each
        for each in matrices
    ]


def _cross_attentions(model: nn.Module) -> Iterator[nn.Module]:
    """Lamina's own by their place, others by their names."""
    for _, stack in own_stacks(model):
        for layer in stack.layers:
            for sublayer, place in zip(layer.sublayers, layer.places, strict=True):
                if place.kind == "cross-attention":
                    yield sublayer
    yield from (module for path, module in model.named_modules() if is_cross_attention(path, module))
