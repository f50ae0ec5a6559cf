"""How much the stream after sub-layer i consists of branch j.

    β_ij = √(Var c_ij ÷ Var x_i),  c_ij the contribution of branch j to x_i; j = 0 is the embedding

Liu et al. 2020, figures 7 and 8. At the start the squares of a row sum to one. The diagonal, the share of the newest
branch, is √(Var f_i ÷ (Var x₀ + Σ_{j≤i} Var f_j)) in pre-LN and the same at every depth in post-LN, where the stream
has variance 1: √(v ÷ (1 + v)), v the mean variance of the branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import nan, sqrt

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.contributions import contributions
from lamina.diagnosis.measures.line import fit, ratio
from lamina.diagnosis.measures.reading import branch_of, placement_of, stacks_of, stream, variance
from lamina.diagnosis.recording.records import Record, StackRecord
from lamina.diagnosis.results import Grid, Measure, Series

MEASURE = Measure(
    key="layer-dependency",
    title="How much each layer depends on each branch",
    formula="β_ij = √(Var c_ij ÷ Var x_i)",
    source="Liu et al. 2020, figures 7 and 8",
    look_for="A bright diagonal means that every layer relies on its own branch, which amplifies small changes of the "
    "weights; an even map, or a diagonal that fades as 1/√i, is stable. Broken: the diagonal in theory.",
    x_label="sub-layer",
    y_label="β of the newest branch",
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def conclude(measure: Measure) -> Measure:
    """Adds the sum of the squared diagonal, which the output change is proportional to (Liu et al., Theorem 2), how far
    the squares of a row are from one at most, and the slope of the diagonal after the fourth sub-layer."""
    facts = {}
    for grid, diagonal in zip(measure.grids, measure.measured, strict=True):
        facts[f"{grid.label} Σβᵢᵢ²"] = sum(share**2 for share in diagonal.y)
        rows = [sum(share**2 for share in row if share == share) for row in grid.values]
        facts[f"{grid.label} row of squares, least"] = min(rows)
        facts[f"{grid.label} row of squares, largest"] = max(rows)
        facts[f"{grid.label} slope of the diagonal"] = fit(diagonal.x[4:], diagonal.y[4:]).slope
    return measure.model_copy(update={"facts": facts})


def _take(record: Record) -> Measure:
    grids, measured, theory = [], [], []
    for stack in stacks_of(record):
        rows = list(shares(stack))
        padded = tuple(tuple(row) + (nan,) * (len(rows) + 1 - len(row)) for row in rows)
        places = tuple(range(1, len(rows) + 1))
        grids.append(Grid(label=stack.name, values=padded, rows="sub-layer", columns="branch, 0 the embedding"))
        measured.append(Series(label=stack.name, x=places, y=tuple(row[-1] for row in rows)))
        if diagonal := _diagonal(stack):
            theory.append(Series(label=f"{stack.name} in theory", x=places, y=tuple(diagonal), dashes=True))
    return MEASURE.model_copy(update={"grids": tuple(grids), "measured": tuple(measured), "theory": tuple(theory)})


def shares(stack: StackRecord) -> Iterator[list[float]]:
    """β_i0 … β_ii after each sub-layer i."""
    for parts, whole in contributions(stack):
        variances = parts.flatten(1).var(dim=1, correction=0)
        yield (variances / whole.var(correction=0)).sqrt().tolist()


def _diagonal(stack: StackRecord) -> list[float]:
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
