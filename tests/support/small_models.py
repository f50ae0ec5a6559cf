"""Small stacks and models that many tests build."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lamina.model.models import EncoderDecoder
from lamina.model.stack import Stack
from lamina.model.transformer import Transformer
from lamina.residual.base import Residual
from lamina.residual.reference import Parameters


class Mixer(nn.Module):
    """A foreign sub-layer that mixes positions: softmax-free, smooth, and cheap to differentiate twice."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(torch.tanh(self.inner(x) + self.inner(x).mean(0)))


def small_stack(
    residual: str, num_layers: int, part_of: str = "single", dim: int = 6, per_layer: int | None = None, **options: Any
) -> Stack:
    per_layer = per_layer or (3 if part_of == "decoder" else 2)
    other = num_layers + 1 if part_of != "single" else 0
    layers = [[Mixer(dim) for _ in range(per_layer)] for _ in range(num_layers)]
    options.setdefault("init", None)  # the sub-layers are foreign and have no roles
    return Stack(layers, model_dim=dim, residual=residual, part_of=part_of, other_num_layers=other, **options)


def ready(stack: Stack, x: Tensor) -> Stack:
    """The stack, calibrated if its scheme needs that, with every parameter changed from its initial value."""
    stack.calibrate(x)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return stack


def by_reference(stack: Stack, x: Tensor) -> Tensor:
    """The scheme's plain loop, on this stack's sub-layers and parameters."""
    import sys

    scheme: type[Residual[Any]] = type(stack.residual)
    tensors = dict(stack.named_parameters()) | dict(stack.named_buffers())
    parameters = Parameters(tensors, stack.shape, stack.residual.norm_options, stack.residual.options)
    layers = [list(layer.sublayers) for layer in stack.layers]
    return sys.modules[scheme.__module__].reference(x, layers, parameters)


SMALL: dict[str, Any] = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40, "dropout": 0.0}
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [11, 12, 13, 14, 0]])
TARGET = torch.tensor([[1, 21, 22, 23], [1, 24, 0, 0], [1, 25, 26, 0]])
LABELS = torch.tensor([[21, 22, 23, 2], [24, 2, 0, 0], [25, 26, 2, 0]])


def small_model(residual: Any, num_layers: Any = 2, **changes: Any) -> EncoderDecoder:
    model = Transformer.from_preset("iwslt", residual=residual, num_layers=num_layers, **(SMALL | changes))
    assert isinstance(model, EncoderDecoder)
    model.calibrate(SOURCE, TARGET)
    return model
