"""Records for the tests of measures: of Lamina's stacks on chosen inputs, and ones made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures import average_all, combine
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.recording.records import MatrixName, NormRecord, Record, Seen, StackRecord, SublayerRecord
from lamina.diagnosis.results import Measure, Series
from lamina.model.feed_forward import FeedForward
from lamina.model.stack import Stack
from lamina.residual.base import Place


def recorded(model: nn.Module, run: Callable[[nn.Module], Tensor]) -> Record:
    return record_pass(model, run)[0]


def mean_of(samples: Sequence[Sequence[Measure]]) -> list[Measure]:
    """As a factory's models are put together, over seeds."""
    return combine(average_all(samples)[0], samples)


def some_loss(y: Tensor) -> Tensor:
    """Along a fixed direction, so that a final norm cannot make it constant."""
    direction = torch.linspace(-1, 1, y.shape[-1], dtype=y.dtype).square()
    return (y @ direction).square().mean()


def feed_forward_stack(residual: str, num_layers: int, dim: int, init: str = "theory", **options: Any) -> Stack:
    """Layers of one feed-forward sub-layer each."""
    layers = [[FeedForward(dim, dim)] for _ in range(num_layers)]
    return Stack(layers, model_dim=dim, residual=residual, init=init, **options)


class Answer(nn.Module):
    """A branch that does not listen: the independent Gaussian one of ResiDual's theorems."""

    def __init__(self, dim: int, positions: int, deviation: float = 1.0) -> None:
        super().__init__()
        self.value = nn.Parameter(deviation * torch.randn(positions, dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.value


def line(series: Sequence[Series], label: str) -> tuple[float, ...]:
    """The numbers of one line of a measure."""
    (found,) = [each for each in series if each.label == label]
    return found.y


def seen(rows: Sequence[Sequence[float]] | Tensor, gradient: float | None = None) -> Seen:
    return Seen(torch.as_tensor(rows, dtype=torch.float64), gradient)


def by_hand(
    states: Sequence[Seen],
    branches: Sequence[Seen] | None = None,
    norms: Sequence[NormRecord] = (),
    kinds: Sequence[str] | None = None,
    per_layer: int = 1,
    real: Tensor | None = None,
) -> Record:
    """A stack of nobody's, from x₀, x₁, …"""
    sublayers = []
    for index, (before, after) in enumerate(zip(states, states[1:], strict=False)):
        at = index % per_layer
        place = Place(index, index // per_layer, kinds[index] if kinds else "x", at == 0, at == per_layer - 1)
        branch = None if branches is None else branches[index]
        sublayers.append(SublayerRecord(place, before, branch, (before,), (after,)))
    return Record(0.0, [StackRecord("stack", ("x",), states[0], sublayers, list(norms), states[-1], real=real)])


def gradients(**by_name: Tensor) -> dict[MatrixName, Tensor]:
    """`encoder_0_query=…`: stack, layer and kind."""
    found = {}
    for name, gradient in by_name.items():
        stack, layer, kind = name.split("_")
        found[MatrixName(name, stack, int(layer), kind)] = gradient
    return found
