"""Shared code of the measures of a watched run: series over steps by kind of matrix, and maps of layers over steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import isfinite, nan
from statistics import median

from lamina.diagnosis.measurement import Grid, Location, Series
from lamina.diagnosis.measures.layer_gradients import NormsByLayer, WeakestLayer, norms_over_kinds, weakest_layer
from lamina.diagnosis.watching.observation import MatrixObservation, Observation
from lamina.diagnosis.watching.spikes import SpikeQuantity

MatrixQuantity = Callable[[MatrixObservation], float | None]
"""One number of an observed matrix; None where it has none."""


def over_steps(location: Location, history: Sequence[Observation], y: Iterable[float], quantity: str = "") -> Series:
    return Series(location=location, quantity=quantity, x=tuple(float(each.step) for each in history), y=tuple(y))


def trace_series(history: Sequence[Observation]) -> tuple[float, ...]:
    """The steps whose loss and gradient norm are known."""
    return tuple(float(step) for each in history for step in each.trace.steps)


def spike_points(history: Sequence[Observation], quantity: SpikeQuantity) -> list[Series]:
    """The spikes of one quantity as single points; no series if there are none."""
    spikes = [spike for each in history for spike in each.spikes if spike.quantity == quantity]
    x, y = tuple(float(each.step) for each in spikes), tuple(each.value for each in spikes)
    return [Series(quantity="spike", points=True, x=x, y=y)] if spikes else []


def layer_map(stack: str, history: Sequence[Observation], rows: Iterable[Sequence[float]]) -> Grid:
    """A map of layers over the observed steps."""
    return Grid(
        location=Location(stack=stack),
        values=tuple(map(tuple, rows)),
        rows="layer",
        columns="step",
        column_numbers=tuple(each.step for each in history),
        logarithmic=True,
    )


def by_kind(history: Sequence[Observation], size: MatrixQuantity) -> tuple[list[Series], list[Grid]]:
    """A series per stack and kind of matrix, the median over layers; a map per stack of the largest in each layer."""
    observed = [{each.location: value for each in one.matrices if (value := size(each)) is not None} for one in history]
    kinds: dict[Location, list[Location]] = {}
    layers: dict[str, dict[int, list[Location]]] = {}
    for location in dict.fromkeys(location for each in observed for location in each):
        if location.stack is not None and location.layer is not None:
            layers.setdefault(location.stack, {}).setdefault(location.layer, []).append(location)
        kinds.setdefault(location.model_copy(update={"layer": None}), []).append(location)
    series = [
        over_steps(kind, history, [_summary(median, locations, each) for each in observed])
        for kind, locations in kinds.items()
    ]
    grids = [
        layer_map(stack, history, [[_summary(max, rows[layer], each) for each in observed] for layer in sorted(rows)])
        for stack, rows in layers.items()
    ]
    return series, grids


def _summary(of: Callable[[list[float]], float], locations: Sequence[Location], sizes: dict[Location, float]) -> float:
    present = [sizes[location] for location in locations if location in sizes]
    return of(present) if present else nan


def weakest_by_stack(observation: Observation) -> dict[str, WeakestLayer]:
    """The weakest layer of each stack with two or more trained layers, at one step.

    A layer without any gradient was not part of this step; if some gradients are not finite, nothing is compared.
    """
    stacks = norms_over_kinds(_norms_by_layer(observation))
    trained = {stack: {layer: norm for layer, norm in each.items() if norm} for stack, each in stacks.items()}
    return {
        stack: weakest_layer(each)
        for stack, each in trained.items()
        if len(each) > 1 and all(map(isfinite, each.values()))
    }


def _norms_by_layer(observation: Observation) -> NormsByLayer:
    """The gradient norms by layer; matrices of cross-attention count as a separate kind."""
    table: dict[tuple[str, Hashable], dict[int, float]] = {}
    for each in observation.matrices:
        stack, layer = each.location.stack, each.location.layer
        if stack is not None and layer is not None:
            kind = each.location.sublayer_kind, each.location.matrix
            table.setdefault((stack, kind), {})[layer] = each.gradient_norm
    return table
