"""Weights in the order in which oneDNN's matrix products read them, for decoding on a CPU.

A decoding step multiplies few rows, one for each hypothesis, with all matrices of the decoder, and most of its time is
spent on reading these. Otherwise every product arranges its matrix anew. Packing takes as long as a few hundred tokens,
and the memory of the weights once more.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from threading import Lock
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from lamina.generate.decoder import Model
from lamina.model.heads import WordHead
from lamina.model.sublayer import Sublayer
from lamina.model.transformer import Transformer

AnyTransformer = TypeVar("AnyTransformer", bound=Transformer)
AnyModule = TypeVar("AnyModule", bound=nn.Module)

ENOUGH = 400
"""The number of tokens to be decoded, hypotheses included, from which packing saves more time than it takes."""
ROWS = 64
"""The number of rows that weights are packed for. From about 8 rows on the order is the same; it suits one row too."""


def can_be_packed(model: nn.Module) -> bool:
    """Whether oneDNN has products for this model: on a CPU, in single precision, not compiled or sharded.

    Where something observes modules or operations, it gets those of the model itself.
    """
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and not torch.is_autocast_enabled("cpu")
        and torch._C._len_torch_function_stack() == 0
        and all(
            type(each) is nn.Parameter and each.dtype == torch.float32 and each.device.type == "cpu"
            for each in model.parameters()
        )
        and next(_linear_layers(model), None) is not None  # int8 weights are packed already
        and not any(
            each._forward_hooks or each._forward_pre_hooks or each._compiled_call_impl for each in model.modules()
        )
    )


def pack(model: AnyTransformer) -> AnyTransformer:
    """A copy of the model with packed weights, for decoding only; it shares everything else with the model."""
    packed = _copy(model, {})
    for sublayer, name, linear in list(_linear_layers(packed)):
        setattr(sublayer, name, PackedLinear(linear.weight, linear.bias))
    if type(packed.head) is WordHead:
        packed.head = PackedWordHead(packed.output_table.weight)
    return packed


def _copy(module: AnyModule, made: dict[nn.Module, nn.Module]) -> AnyModule:
    """A module whose submodules can be replaced, with the parameters and all other attributes of the given one."""
    if module not in made:
        made[module] = copied = copy.copy(module)
        copied._modules = {name: child and _copy(child, made) for name, child in module._modules.items()}
    return cast(AnyModule, made[module])


def _linear_layers(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """The linear layers of Lamina's own sub-layers, which use them as functions and in no other way."""
    for sublayer in model.modules():
        if isinstance(sublayer, Sublayer):
            for name, child in sublayer.named_children():
                if type(child) is nn.Linear:
                    yield sublayer, name, child


class PackedLinear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS), bias

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class PackedWordHead(WordHead):
    """The output table as a packed linear layer."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.scores = PackedLinear(table, None)

    def forward(self, hidden: Tensor, table: nn.Embedding) -> Tensor:
        return self.scores(hidden)


class Packing:
    """A model whose weights are packed as soon as there is enough to decode.

    What is to be decoded is counted when it is read, before any batch of its window is computed. So whether a batch is
    computed with packed weights does not depend on which thread computes it when.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._num_tokens, self._lock = model, 0, Lock()
        self._is_final = not can_be_packed(model)

    def count(self, num_tokens: int) -> None:
        """Count tokens that are going to be decoded, hypotheses included."""
        self._num_tokens += num_tokens

    def model(self) -> Model:
        """The model to decode with."""
        with self._lock:
            if not self._is_final and self._num_tokens >= ENOUGH:
                self._model, self._is_final = pack(self._model), True
            return self._model
