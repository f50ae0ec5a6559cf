"""The observation of a watch at one step of the optimiser, and the file of observations that a resumed run reads."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING

from lamina.diagnosis.measurement import Location, Measurement, TypedResult
from lamina.diagnosis.measures.adam_conditioning import CONDITION_NUMBER
from lamina.diagnosis.watching.spikes import LearningRateJump, Spike
from lamina.run_folder.records import ObservationsFile

if TYPE_CHECKING:
    from lamina.diagnosis.watching.steps import StepValues

VERSION = 3
"""The version of `Observation`, which is stored with observations: files of another one are not read."""
MOST_TRACED = 25
"""The largest number of steps in the trace of an observation: enough for a curve, and small in a file."""


class MatrixObservation(TypedResult):
    """The gradient and the update of one weight matrix; those of one kind in one layer count as one matrix."""

    location: Location
    """Stack, layer and kind of matrix, with `sublayer_kind` for cross-attention only; of embeddings and heads, which
    belong to no layer, the module."""
    gradient_norm: float
    """‖∂L/∂W‖."""
    update_norm: float
    """‖W_{t+1} − W_t‖."""
    relative_update: float | None
    """‖W_{t+1} − W_t‖ ÷ ‖W_t‖; None where W_t is zero."""
    learning_rate: float
    """The learning rate of this step."""


class StreamObservation(TypedResult):
    """The residual streams of one stack."""

    stack: str
    root_mean_squares: tuple[float, ...]
    """The root mean square of the first stream after every layer; NaN after layers that did not run."""
    largest: float
    """The largest absolute value in any stream after any layer."""


class OutsideBand(TypedResult):
    """A matrix whose update lies outside the band of its updates before."""

    location: Location
    times_usual: float
    """The update divided by the learning rate, relative to the median of those before it."""

    @property
    def distance(self) -> float:
        """The distance from the usual size, up or down; infinite for values that are not finite."""
        return max(self.times_usual, 1 / self.times_usual) if isfinite(self.times_usual) else inf


class StepTrace(TypedResult):
    """Loss, gradient norm and learning rate of the steps since the last observation."""

    steps: tuple[int, ...] = ()
    losses: tuple[float | None, ...] = ()
    """None where the loss is unknown."""
    gradient_norms: tuple[float, ...] = ()
    """The norm of the gradient of all parameters, before clipping."""
    learning_rates: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[StepValues]) -> StepTrace:
        """The trace of at most `MOST_TRACED` of these steps, evenly spaced."""
        kept = steps[:: max(1, -(-len(steps) // MOST_TRACED))]
        return cls(
            steps=tuple(each.step for each in kept),
            losses=tuple(each.loss for each in kept),
            gradient_norms=tuple(each.gradient_norm for each in kept),
            learning_rates=tuple(each.learning_rate for each in kept),
        )

    def __add__(self, later: StepTrace) -> StepTrace:
        return StepTrace(**{name: values + getattr(later, name) for name, values in self})


class Observation(TypedResult):
    """One watched step, and a few numbers of the steps between it and the last one."""

    step: int
    trace: StepTrace = StepTrace()
    spikes: tuple[Spike, ...] = ()
    """The spikes since the last observation; usually a spike is the reason for an observation."""
    learning_rate_jumps: tuple[LearningRateJump, ...] = ()
    matrices: tuple[MatrixObservation, ...] = ()
    """All matrices that had a gradient, in the order of the model."""
    streams: tuple[StreamObservation, ...] = ()
    conditioning: Measurement | None = None
    """The measurement of `adam-conditioning` for this step."""
    no_conditioning: str = ""
    """Why `conditioning` is None."""
    coverage: Measurement | None = None
    """The measurement of `gradient-coverage` for this step."""
    ranges: Measurement | None = None
    """The measurement of `module-ranges` for this step. An observation that has nothing else is that of a step, or of
    skipped steps, in which values were not finite."""
    output_stack: str | None = None
    """The stack from which the loss is computed: the one with cross-attention, else the last; None if there is none."""
    outside: tuple[OutsideBand, ...] = ()
    """The matrices whose update left its band."""
    unstable: bool = False
    """Whether enough updates left their bands at once for a warning."""

    @property
    def num_updates(self) -> int:
        """The number of matrices whose relative update is known."""
        return sum(each.relative_update is not None for each in self.matrices)

    @property
    def furthest(self) -> OutsideBand:
        """The update furthest from its usual size, among those that left their band."""
        return max(self.outside, key=lambda each: each.distance)

    def values(self) -> dict[str, float]:
        """Flat names for logs and trackers: `update/decoder.3.query`, `stream/decoder.3`; layers count from 1."""
        found = {f"gradient/{flat_name(each.location)}": each.gradient_norm for each in self.matrices}
        for each in self.matrices:
            if each.relative_update is not None:
                found[f"update/{flat_name(each.location)}"] = each.relative_update
        for stream in self.streams:
            for layer, size in enumerate(stream.root_mean_squares, 1):
                if not isnan(size):
                    found[f"stream/{stream.stack}.{layer}"] = size
        return found | self.summary()

    def summary(self) -> dict[str, float]:
        """The few values that concern a whole stack or the whole model, under the same names."""
        found = {f"stream_peak/{stream.stack}": stream.largest for stream in self.streams}
        condition = None if self.conditioning is None else self.conditioning.fact(CONDITION_NUMBER)
        if condition is not None:
            found["condition"] = condition
        return found | {"updates_outside": float(len(self.outside)), "spikes": float(len(self.spikes))}


def flat_name(location: Location) -> str:
    """`decoder.3.query`, `decoder.3.cross-attention.query`; the module where it belongs to no layer."""
    parts = (location.stack, location.layer, location.sublayer_kind, location.matrix)
    return location.module or ".".join(str(part) for part in parts if part is not None)


def write_observations(file: ObservationsFile, observations: Sequence[Observation]) -> None:
    file.write(VERSION, observations)


def read_observations(file: ObservationsFile, until: int) -> list[Observation]:
    """The observations up to a step, from which training is resumed; none where there is no file."""
    return [each for each in file.read(VERSION, Observation) if each.step <= until]
