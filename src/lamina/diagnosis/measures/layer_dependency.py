"""How much the stream after sub-layer i consists of branch j.

    β_ij = √(Var c_ij ÷ Var x_i),  c_ij the contribution of branch j to x_i; j = 0 is the embedding

Liu et al. 2020, figures 7 and 8. Before training the squares of a row sum to one. The diagonal, the share of the newest
branch, is √(Var f_i ÷ (Var x₀ + Σ_{j≤i} Var f_j)) in pre-LN and the same at every depth in post-LN, where the stream
has variance 1: √(v ÷ (1 + v)), v the mean variance of the branches.

Facts of each stack: `Σβᵢᵢ²`, which the change of the output is proportional to (Theorem 2); `smallest row sum` and
`largest row sum` of squares; `slope` of the diagonal after the fourth sub-layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import nan, sqrt

from lamina.diagnosis.measurement import Axes, Fact, FactName, Grid, Location, Measurement, Series
from lamina.diagnosis.measures.base import SLOPE, Evidence, Measure, require
from lamina.diagnosis.measures.contributions import contributions
from lamina.diagnosis.measures.reading import branch_of, placement_of, stacks_of, stream, variance
from lamina.diagnosis.measures.statistics import fit, ratio
from lamina.diagnosis.recording.records import StackRecord

SUM_OF_SQUARES = FactName("Σβᵢᵢ²")
SMALLEST_ROW_SUM = FactName("smallest row sum")
LARGEST_ROW_SUM = FactName("largest row sum")


class LayerDependency(Measure):
    title = "Dependency of each layer on each branch"
    formula = "β_ij = √(Var c_ij ÷ Var x_i)"
    source = "Liu et al. 2020, figures 7 and 8"
    look_for = (
        "A bright diagonal shows that every layer relies on its own branch, which amplifies small changes of the "
        "weights; an even map, or a diagonal that falls as 1/√i, is stable. Dashed: the predicted diagonal."
    )
    axes = Axes(x="sub-layer", y="β of the newest branch")
    needs = ("record",)
    position = 90

    def take(self, evidence: Evidence) -> Measurement:
        grids, measured, predicted = [], [], []
        for stack in stacks_of(require(evidence.record)):
            location, rows = Location(stack=stack.name), list(shares(stack))
            padded = tuple(tuple(row) + (nan,) * (len(rows) + 1 - len(row)) for row in rows)
            places = tuple(range(1, len(rows) + 1))
            columns = "branch (0 is the embedding)"
            grids.append(Grid(location=location, values=padded, rows="sub-layer", columns=columns, first_column=0))
            measured.append(Series(location=location, x=places, y=tuple(row[-1] for row in rows)))
            if diagonal := _predicted_diagonal(stack):
                predicted.append(Series(location=location, role="predicted", x=places, y=tuple(diagonal)))
        return self.measurement([*measured, *predicted], grids=grids)

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = []
        for grid, diagonal in zip(measurement.grids, measurement.measured, strict=True):
            sums = [sum(share**2 for share in row if share == share) for row in grid.values]
            found = {
                SUM_OF_SQUARES: sum(share**2 for share in diagonal.y),
                SMALLEST_ROW_SUM: min(sums),
                LARGEST_ROW_SUM: max(sums),
                SLOPE: fit(diagonal.x[4:], diagonal.y[4:]).slope,
            }
            facts += [Fact(name=name, location=grid.location, value=value) for name, value in found.items()]
        return measurement.model_copy(update={"facts": tuple(facts)})


def shares(stack: StackRecord) -> Iterator[list[float]]:
    """β_i0 … β_ii after each sub-layer i."""
    for parts, whole in contributions(stack):
        variances = parts.flatten(1).var(dim=1, correction=0)
        yield (variances / whole.var(correction=0)).sqrt().tolist()


def _predicted_diagonal(stack: StackRecord) -> list[float]:
    branches = [variance(stack, branch_of(stack, sublayer)) for sublayer in stack.sublayers]
    match placement_of(stack):
        case "pre":
            totals = accumulate(branches, initial=variance(stack, stream(stack)[0]))
            next(totals)
            return [sqrt(ratio(branch, total)) for branch, total in zip(branches, totals, strict=True)]
        case "post":
            mean = sum(branches) / len(branches)
            return [sqrt(mean / (1 + mean))] * len(branches)
        case _:
            return []
