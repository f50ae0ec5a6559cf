"""How much the output changes when one more block is added and the earlier weights are kept.

    mean of |y_k − y_{k−1}|,  y_k the output of the stack cut off after sub-layer k

Xie et al. 2023: in pre-LN it falls as k^-1/2 (Corollary 3.5); where streams are added up at the end, as in ResiDual,
it is never below √(2/π)·ω (Corollary 3.7, printed of pre-LN but proved for ResiDual), ω of Theorem 3.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.hidden_change import MEAN_OF_ABSOLUTE, predicted
from lamina.diagnosis.measures.line import fit_logarithms
from lamina.diagnosis.measures.reading import NotMeasurable, as_state, positions, stacks_of
from lamina.diagnosis.recording.records import Record, Seen, StackRecord
from lamina.diagnosis.results import Measure, Series
from lamina.model.stack import Stack

MEASURE = Measure(
    key="added-block",
    title="What one more block does to the output",
    formula="mean |y_k − y_{k−1}|, y_k the output of the first k sub-layers",
    source="Xie et al. 2023, Corollaries 3.5 and 3.7",
    look_for="A line that fades to the right says that more layers would change little. Broken: √(2/π)·ω of Theorems "
    "3.3 and 3.6, a lower bound where streams are added up at the end.",
    x_label="sub-layer",
    y_label="mean absolute change of the output",
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def conclude(measure: Measure) -> Measure:
    """Adds the power of k with which the change fades, from the fourth sub-layer on."""
    powers = {f"{line.label} power": fit_logarithms(line.x[3:], line.y[3:]).slope for line in measure.measured}
    return measure.model_copy(update={"facts": powers})


def _take(record: Record) -> Measure:
    measured, theory = [], []
    for stack in stacks_of(record):
        if stack.own is None:
            raise NotMeasurable("only Lamina's own stacks can be cut off after any sub-layer")
        outputs = (positions(stack, Seen(output)) for output in _outputs(stack, stack.own))
        found = tuple((after - before).abs().mean().item() for before, after in pairwise(outputs))
        places = tuple(range(1, len(found) + 1))
        measured.append(Series(label=stack.name, x=places, y=found))
        if omegas := predicted(stack):
            y = tuple(MEAN_OF_ABSOLUTE * omega for omega in omegas)
            theory.append(Series(label=f"{stack.name} in theory", x=places, y=y, dashes=True))
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory)})


def _outputs(stack: StackRecord, own: Stack) -> Sequence[Tensor]:
    states = [stack.sublayers[0].before, *(sublayer.after for sublayer in stack.sublayers)]
    with torch.no_grad():
        return [own.residual.close(as_state(stack, [part.value for part in state])) for state in states]
