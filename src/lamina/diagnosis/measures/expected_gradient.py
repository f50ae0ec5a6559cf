"""The expected gradient of every weight matrix: the mean over mini-batches, taken before any norm (Xiong et al. 2020,
section 3.4).

Only sums are kept, however many batches come. They are kept in parts, so that any part can be left out again: how much
the norm of the mean depends on the batches shows in the means without each (the jackknife).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

from torch import Tensor

from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.records import MatrixName


class ExpectedGradient:
    def __init__(self, parts: int = 1) -> None:
        self._sums: list[dict[MatrixName, Tensor]] = [{} for _ in range(parts)]
        self._counts = [0] * parts

    def add(self, gradients: Mapping[MatrixName, Tensor]) -> None:
        """Those of the next batch; the parts take turns."""
        part = sum(self._counts) % len(self._counts)
        sums = self._sums[part]
        for name, gradient in gradients.items():
            sums[name] = sums[name] + gradient if name in sums else gradient
        self._counts[part] += 1

    def mean(self, without: int | None = None) -> dict[MatrixName, Tensor]:
        """Over all batches, or over those of all parts but one. Where no gradient came it is zero."""
        kept = [part for part in range(len(self._sums)) if part != without]
        number = sum(self._counts[part] for part in kept)
        names = dict.fromkeys(name for part in kept for name in self._sums[part])
        if not names:
            raise NotMeasurable(
                "no gradient reached a weight matrix; is anything trained, and was the loss differentiated?"
            )
        return {name: self._sum(name, kept) / number for name in names}

    def _sum(self, name: MatrixName, parts: Sequence[int]) -> Tensor:
        return reduce(add, (self._sums[part][name] for part in parts if name in self._sums[part]))
