"""The next update of every matrix relative to its weights: size and angle.

    ‖ΔW‖ ÷ ‖W‖,  and the angle between W and W + ΔW in degrees

Karpathy 2019 takes 10⁻³ per step for a healthy ratio in training; the first step of Adam, which moves every weight by
the learning rate η, has η ÷ √mean(W²). Angle: Kosson et al. 2024, "Rotational Equilibrium". The update is that of the
given optimiser, or of Adam's first step at the planned learning rate.

Facts: for every matrix `ratio`, at its module; `not updated`, 1 for matrices with a gradient whose update is zero;
`decay`, η·λ of decoupled weight decay, else λ‖W‖ ÷ ‖g‖, by module; `learning rate`; `assumed`, 1 if no optimiser was
given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import acos, degrees

from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.planned_update import PlannedUpdate
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.recording.taps import norm_of

RATIO_LINE, ANGLE_LINE = "ratio", "angle"
"""The quantities of the lines."""
RATIO, NOT_UPDATED, DECAY = FactName("ratio"), FactName("not updated"), FactName("decay")
LEARNING_RATE, ASSUMED, DECOUPLED = FactName("learning rate"), FactName("assumed"), FactName("decoupled")


class UpdateSize(Measure):
    title = "The next update of every matrix"
    formula = "‖ΔW‖ ÷ ‖W‖, and the angle between W and W + ΔW"
    source = "after Karpathy 2019; Kosson et al. 2024"
    look_for = (
        "Updates of one kind should be alike over the layers. A ratio near 1 replaces the weights in one step, one at "
        "0 leaves them as they are."
    )
    axes = Axes(x="layer", y="ratio, or angle in degrees", log_y=True)
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 102

    def take(self, evidence: Evidence) -> Measurement:
        planned = evidence.planned
        matrices = [each for each in find_layers(require(evidence.model)).matrices if each.parameter in planned.changes]
        if not matrices:
            raise NotMeasurable("no weight matrix has a gradient")
        lines: dict[tuple[Location, str], dict[int, float]] = defaultdict(dict)
        facts = []
        for each in matrices:
            weight, change = each.of(each.parameter.detach()), each.of(planned.changes[each.parameter])
            size, step = norm_of(weight).item(), norm_of(change).item()
            if not size:
                continue
            place = location_of(each)
            facts.append(Fact(name=RATIO, location=place, value=step / size))
            if each.name.layer is not None:
                kind = each.name.location.model_copy(update={"layer": None})
                lines[kind, RATIO_LINE][each.name.layer + 1] = step / size
                lines[kind, ANGLE_LINE][each.name.layer + 1] = angle(weight, change)
        series = [
            Series(
                location=kind, quantity=quantity, x=tuple(sorted(layers)), y=tuple(layers[at] for at in sorted(layers))
            )
            for (kind, quantity), layers in lines.items()
        ]
        return self.measurement(series, facts=[*facts, *_further(planned, matrices)])


def location_of(matrix: NamedMatrix) -> Location:
    """The location with the module, or the parameter where it is no module's weight."""
    module = matrix.name.module or matrix.name.path
    return matrix.name.location.model_copy(update={"module": module})


def angle(weight: Tensor, change: Tensor) -> float:
    """The angle between W and W + ΔW in degrees."""
    moved = weight + change
    sizes = norm_of(weight).item() * norm_of(moved).item()
    cosine = (weight.double() * moved.double()).sum().item() / sizes if sizes else 1.0
    return degrees(acos(max(-1.0, min(1.0, cosine))))


def _further(planned: PlannedUpdate, matrices: list[NamedMatrix]) -> Iterator[Fact]:
    for each in matrices:
        if planned.gradient_sizes[each.parameter] and not bool(planned.changes[each.parameter].any()):
            yield Fact(name=NOT_UPDATED, location=location_of(each), value=1.0)
        if each.parameter in planned.decay:
            yield Fact(name=DECAY, location=location_of(each), value=planned.decay[each.parameter])
    yield Fact(name=LEARNING_RATE, value=planned.learning_rate)
    yield Fact(name=ASSUMED, value=float(planned.assumed))
    yield Fact(name=DECOUPLED, value=float(planned.decoupled))
