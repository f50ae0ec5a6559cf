"""The gain with which a scheme of several residual streams mixes them, forward and backward.

    ‖H_k‖ ÷ ‖H_0‖ after sub-layer k over all streams,  and  ‖∂L/∂H_k‖ ÷ ‖∂L/∂H_n‖

Xie et al. 2025 (mHC), section 3.1: learned mixing of streams without constraint multiplies from layer to layer, and the
gain of the product grows without bound. Fact of each stack: `largest gain`, forward and backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.reading import stacks_of
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.recording.records import RecordedTensor, StackRecord
from lamina.diagnosis.recording.taps import norm_of

FORWARD, BACKWARD = "forward", "backward"
LARGEST_GAIN = FactName("largest gain")


class StreamMixing(Measure):
    title = "Gain of all residual streams together"
    formula = "‖H_k‖ ÷ ‖H_0‖, and ‖∂L/∂H_k‖ ÷ ‖∂L/∂H_n‖"
    source = "after Xie et al. 2025 (mHC), section 3.1"
    look_for = "Lines that grow exponentially show mixing weights whose product amplifies the streams or the gradient."
    axes = Axes(x="sub-layer", y="gain", log_y=True)
    needs = ("record",)
    position = 86

    def take(self, evidence: Evidence) -> Measurement:
        stacks = [each for each in stacks_of(require(evidence.record)) if _has_several(each)]
        if not stacks:
            raise NotMeasurable("there is one residual stream only")
        return self.measurement([each for stack in stacks for each in _lines(stack)])

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = [
            Fact(name=LARGEST_GAIN, location=each.location, quantity=each.quantity, value=max(each.y))
            for each in measurement.measured
        ]
        return measurement.model_copy(update={"facts": tuple(facts)})


def _has_several(stack: StackRecord) -> bool:
    """Whether a state has several parts, or one part with a dimension for streams, as hyper-connections have."""
    state = stack.sublayers[0].before
    return len(stack.streams) > 1 or state[0].value.dim() > stack.input.value.dim()


def _lines(stack: StackRecord) -> Iterator[Series]:
    states = [stack.sublayers[0].before, *(each.after for each in stack.sublayers)]
    x, location = tuple(range(len(states))), Location(stack=stack.name)
    sizes = [_size(state) for state in states]
    yield Series(location=location, quantity=FORWARD, x=x, y=tuple(ratio(each, sizes[0]) for each in sizes))
    gradients = [_gradient(state) for state in states]
    last = gradients[-1]
    yield Series(location=location, quantity=BACKWARD, x=x, y=tuple(ratio(each, last) for each in gradients))


def _size(state: Sequence[RecordedTensor]) -> float:
    return sum(norm_of(each.value).item() ** 2 for each in state) ** 0.5


def _gradient(state: Sequence[RecordedTensor]) -> float:
    """Over the streams that the gradient reaches."""
    return sum(each.gradient_norm**2 for each in state if each.gradient_norm is not None) ** 0.5
