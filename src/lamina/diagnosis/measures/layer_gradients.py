"""Gradient norms by layer, and the expected gradient they are taken from: shared by several measures and checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import hypot
from operator import add
from typing import Any, NamedTuple

from torch import Tensor

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.recording.taps import norm_of

NormsByLayer = Mapping[tuple[str, Any], Mapping[int, float]]
"""Gradient norms by stack and kind of matrix, then by layer from 1."""


class ExpectedGradient:
    """The expected gradient of every weight matrix: the mean over mini-batches, taken before any norm (Xiong et al.
    2020, section 3.4).

    Only sums are kept, for any number of batches, and only of matrices inside layers, since embeddings and heads are
    large and not compared. They are kept in parts, so that the mean without one part can be computed (the jackknife).
    """

    def __init__(self, parts: int = 1) -> None:
        self._sums: list[dict[MatrixName, Tensor]] = [{} for _ in range(parts)]
        self._counts = [0] * parts

    def add(self, gradients: Mapping[MatrixName, Tensor]) -> None:
        """Add the gradients of the next batch to the next part, in turn."""
        part = sum(self._counts) % len(self._counts)
        sums = self._sums[part]
        for name, gradient in gradients.items():
            if name.layer is None:
                continue
            sums[name] = sums[name] + gradient if name in sums else gradient
        self._counts[part] += 1

    def mean(self, without: int | None = None) -> MeanGradient:
        """The mean over all batches, or over those of all parts but one. A missing gradient counts as zero."""
        kept = [part for part in range(len(self._sums)) if part != without]
        found = MeanGradient([self._sums[part] for part in kept], sum(self._counts[part] for part in kept))
        if not found:
            raise NotMeasurable(
                "no gradient reached a weight matrix of a layer: no such parameter is trained, or the loss is constant"
            )
        return found


class MeanGradient(Mapping[MatrixName, Tensor]):
    """A mean of sums; each matrix is computed when it is read, so that there is never a copy of all of them."""

    def __init__(self, sums: Sequence[Mapping[MatrixName, Tensor]], number: int) -> None:
        self._sums, self._number = sums, number
        self._names = dict.fromkeys(name for each in sums for name in each)

    def __getitem__(self, name: MatrixName) -> Tensor:
        return reduce(add, (each[name] for each in self._sums if name in each)) / self._number

    def __iter__(self) -> Iterator[MatrixName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def norms_by_layer(gradients: Mapping[MatrixName, Tensor]) -> dict[tuple[str, str], dict[int, float]]:
    """The Frobenius norms. Matrices of one kind in one layer count as one; embeddings and heads belong to no layer."""
    squares: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for name, gradient in gradients.items():
        if name.layer is not None:
            squares[name.stack, name.kind][name.layer + 1] += norm_of(gradient).item() ** 2
    if not squares:
        raise NotMeasurable("no weight matrix belongs to a layer")
    return {key: {layer: layers[layer] ** 0.5 for layer in sorted(layers)} for key, layers in squares.items()}


def norms_over_kinds(norms: NormsByLayer) -> dict[str, dict[int, float]]:
    """The norms by stack and layer over all kinds of matrices that the last layer has; layers that lack one are left
    out."""
    by_stack: dict[str, list[Mapping[int, float]]] = defaultdict(list)
    for (stack, _), layers in norms.items():
        by_stack[stack].append(layers)
    return {stack: _norms_over_kinds(kinds) for stack, kinds in by_stack.items()}


def _norms_over_kinds(kinds: Sequence[Mapping[int, float]]) -> dict[int, float]:
    last = max(layer for layers in kinds for layer in layers)
    compared = [layers for layers in kinds if last in layers]
    common = sorted(set.intersection(*(set(layers) for layers in compared)))
    return {layer: hypot(*(layers[layer] for layers in compared)) for layer in common}


class WeakestLayer(NamedTuple):
    """The layer with the smallest gradient among those below the last."""

    layer: int
    last: int
    share: float
    """Its gradient ÷ that of the last layer; NaN where the last has none, as when branches start at zero."""


def weakest_layer(norms: Mapping[int, float]) -> WeakestLayer:
    """The weakest of two or more layers."""
    last = max(norms)
    layer = min((each for each in norms if each < last), key=lambda each: norms[each])
    return WeakestLayer(layer, last, ratio(norms[layer], norms[last]))
