"""How much the output changes when one more block is added and the earlier weights are kept.

    mean of |y_k − y_{k−1}|,  y_k the output of the stack cut off after sub-layer k

Xie et al. 2023: in pre-LN it falls as k^-1/2 (Corollary 3.5); where streams are added up at the end, as in ResiDual,
it is never below √(2/π)·ω (Corollary 3.7, printed of pre-LN but proved for ResiDual), ω of Theorem 3.6. Fact: `power`,
of k with which the change falls, from the fourth sub-layer on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import POWER, Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.hidden_change import MEAN_OF_ABSOLUTE, predicted_omegas
from lamina.diagnosis.measures.reading import as_state, positions, stacks_of
from lamina.diagnosis.measures.statistics import fit_power
from lamina.diagnosis.recording.records import RecordedTensor, StackRecord
from lamina.model.stack import Stack


class AddedBlock(Measure):
    title = "Change of the output by one more block"
    formula = "mean |y_k − y_{k−1}|, y_k the output of the first k sub-layers"
    source = "Xie et al. 2023, Corollaries 3.5 and 3.7"
    look_for = (
        "A line that falls to the right shows that more layers would change little. Dashed: √(2/π)·ω of Theorems 3.3 "
        "and 3.6, a lower bound where streams are added up at the end."
    )
    axes = Axes(x="sub-layer", y="mean absolute change of the output")
    needs = ("record",)
    position = 70

    def take(self, evidence: Evidence) -> Measurement:
        measured, predicted = [], []
        for stack in stacks_of(require(evidence.record)):
            if stack.own is None:
                raise NotMeasurable("only Lamina's own stacks can be cut off after any sub-layer")
            outputs = (positions(stack, RecordedTensor(output)) for output in _outputs(stack, stack.own))
            found = tuple((after - before).abs().mean().item() for before, after in pairwise(outputs))
            location, places = Location(stack=stack.name), tuple(range(1, len(found) + 1))
            measured.append(Series(location=location, x=places, y=found))
            if omegas := predicted_omegas(stack):
                y = tuple(MEAN_OF_ABSOLUTE * omega for omega in omegas)
                predicted.append(Series(location=location, role="predicted", x=places, y=y))
        return self.measurement([*measured, *predicted])

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = [
            Fact(name=POWER, location=each.location, value=fit_power(each.x[3:], each.y[3:]).slope)
            for each in measurement.measured
        ]
        return measurement.model_copy(update={"facts": tuple(facts)})


def _outputs(stack: StackRecord, own: Stack) -> Sequence[Tensor]:
    states = [stack.sublayers[0].before, *(sublayer.after for sublayer in stack.sublayers)]
    with torch.no_grad():
        return [own.residual.close(as_state(stack, [part.value for part in state])) for state in states]
