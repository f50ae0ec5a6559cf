"""Records for the tests of measures: of Lamina's stacks on chosen inputs, and ones made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.examine import average_all, combine, conclude
from lamina.diagnosis.measurement import Measurement, SeriesRole
from lamina.diagnosis.measures.base import Evidence, Measure
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.recording.records import (
    MatrixName,
    NormRecord,
    Record,
    RecordedTensor,
    StackRecord,
    SublayerRecord,
)
from lamina.model.feed_forward import FeedForward
from lamina.model.stack import Stack
from lamina.residual.base import Place


def recorded(model: nn.Module, run: Callable[[nn.Module], Tensor]) -> Record:
    return record_pass(model, run)[0]


def take(measure: type[Measure], record: Record) -> Measurement:
    """A measure of one record."""
    return measure().take(Evidence(record=record))


def mean_of(samples: Sequence[Sequence[Measurement]]) -> list[Measurement]:
    """The means over seeds, with conclusions and spreads."""
    return combine(average_all(samples)[0], [conclude(sample) for sample in samples])


def line(measurement: Measurement, *, role: SeriesRole = "measured", **selected: Any) -> tuple[float, ...]:
    """The numbers of the only series at that location: `line(found, stack="encoder", matrix="query")`."""
    (found,) = measurement.select(role=role, **selected)
    return found.y


def fact(measurement: Measurement, name: str, **selected: Any) -> float:
    (found,) = measurement.find_facts(name, **selected)
    return found.value


def some_loss(y: Tensor) -> Tensor:
    """A loss along a fixed direction, so that a final norm cannot make it constant."""
    direction = torch.linspace(-1, 1, y.shape[-1], dtype=y.dtype).square()
    return (y @ direction).square().mean()


def feed_forward_stack(residual: str, num_layers: int, dim: int, init: str = "theory", **options: Any) -> Stack:
    """Layers of one feed-forward sub-layer each."""
    layers = [[FeedForward(dim, dim)] for _ in range(num_layers)]
    return Stack(layers, model_dim=dim, residual=residual, init=init, **options)


class IndependentBranch(nn.Module):
    """A branch that does not depend on its input: the independent Gaussian one of ResiDual's theorems."""

    def __init__(self, dim: int, positions: int, deviation: float = 1.0) -> None:
        super().__init__()
        self.value = nn.Parameter(deviation * torch.randn(positions, dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.value


def tensor_record(rows: Sequence[Sequence[float]] | Tensor, gradient: float | None = None) -> RecordedTensor:
    return RecordedTensor(torch.as_tensor(rows, dtype=torch.float64), gradient)


def by_hand(
    states: Sequence[RecordedTensor],
    branches: Sequence[RecordedTensor] | None = None,
    norms: Sequence[NormRecord] = (),
    kinds: Sequence[str] | None = None,
    per_layer: int = 1,
    real: Tensor | None = None,
) -> Record:
    """The record of a stack that belongs to no model, from x₀, x₁, …"""
    sublayers = []
    for index, (before, after) in enumerate(zip(states, states[1:], strict=False)):
        at = index % per_layer
        place = Place(index, index // per_layer, kinds[index] if kinds else "x", at == 0, at == per_layer - 1)
        branch = None if branches is None else branches[index]
        sublayers.append(SublayerRecord(place, before, branch, (before,), (after,)))
    return Record(0.0, [StackRecord("stack", ("x",), states[0], sublayers, list(norms), states[-1], real=real)])


def gradients(**by_name: Tensor) -> dict[MatrixName, Tensor]:
    """`encoder_0_query=…`: stack, layer from 0, and kind."""
    found = {}
    for name, gradient in by_name.items():
        stack, layer, kind = name.split("_")
        found[MatrixName(name, stack, int(layer), kind)] = gradient
    return found
