"""The alarms of a watch: spikes, updates that leave their band, a gradient that has vanished, and NaN values.

An update, divided by its learning rate, is compared with those before it in a robust running band in log space:

    ln x − median ≤ max(width · 1.4826 · MAD, ln factor)      over the last `window` updates

Median and median absolute deviation (MAD) are not affected by single outliers, and 1.4826·MAD is the standard deviation
of a Gaussian. Updates change by factors, hence the logarithm. The least factor avoids false alarms where updates hardly
vary. There is no lower edge: weights grow and gradients fall in any training that succeeds.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Annotated

from pydantic import Field

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.watched_series import weakest_by_stack
from lamina.diagnosis.recording.ranges import NonFinite
from lamina.diagnosis.watching.observation import MatrixObservation, Observation, OutsideBand
from lamina.diagnosis.watching.spikes import LearningRateJump, Spike
from lamina.formatting import short
from lamina.options import Formerly, Options

GAUSSIAN = 1.4826


@dataclass(frozen=True)
class UpdateAlarm:
    """Many updates have left their bands at once, or one is not finite."""

    step: int
    location: Location
    """The matrix whose update is furthest from its usual size."""
    times_usual: float
    """The matrix's update divided by the learning rate, relative to the median of those before it."""
    outside: int
    """The number of matrices outside their bands."""
    total: int
    """The number of matrices that were compared."""

    def __str__(self) -> str:
        return (
            f"step {self.step}: the update of {self.location} is {short(self.times_usual)} times its usual size at "
            f"this learning rate, and {self.outside} of {self.total} matrices have left their band; the loss may "
            "follow. Examine this batch, lower the learning rate, lengthen the warm-up, or clip the gradient"
        )


@dataclass(frozen=True)
class VanishedGradientAlarm:
    """A layer of the stack from which the loss is computed has hardly any gradient left."""

    step: int
    location: Location
    """The stack and the layer."""
    last_layer: int
    share: float
    """The layer's gradient norm relative to that of the last layer."""

    def __str__(self) -> str:
        return (
            f"step {self.step}: the gradient norm of {self.location} is {short(self.share)} of layer "
            f"{self.last_layer}'s: it has vanished, and the loss is likely to stop falling. Lower the learning rate, "
            "lengthen the warm-up, or choose a residual scheme that keeps the gradient"
        )


@dataclass(frozen=True)
class NonFiniteAlarm:
    """Values of a module are NaN or infinite."""

    step: int
    found: NonFinite
    skipped: bool
    """Whether a gradient scaler skips the steps in which this happens."""
    late: bool = False
    """Whether the step was read from the device when the weights had been changed, so that it was not run again."""

    @property
    def location(self) -> Location:
        return self.found.location

    def __str__(self) -> str:
        if self.late:
            return (
                f"step {self.step}: the gradient of {self.location.module} is NaN or infinite, the first of the "
                "backward pass. The weights have changed since, so the module in which it began is not known: "
                "lamina.watch(…, read_every=1) finds it at the step itself"
            )
        what = "output" if self.found.kind == "output" else "gradient"
        given = "" if self.found.input is None else f"the largest number of its input is {short(self.found.input)}, "
        steps = "; steps are being skipped since" if self.skipped else ""
        return (
            f"step {self.step}: the {what} of {self.location.module or 'the model'} is the first that is NaN or "
            f"infinite: {given}that of its parameters {short(self.found.parameters)}, and its precision ends at "
            f"{short(self.found.limit, 5)}{steps}. Use bf16 or fp32 there, lower the learning rate, or examine the "
            "batch"
        )


@dataclass(frozen=True)
class SpikeAlarm:
    """The loss or the gradient norm is far above its last values."""

    spike: Spike

    @property
    def step(self) -> int:
        return self.spike.step

    @property
    def location(self) -> Location:
        return self.spike.location

    def __str__(self) -> str:
        return f"step {self.step}: {describe_spike(self.spike)}. {ADVICE_ON_SPIKES}"


@dataclass(frozen=True)
class LearningRateAlarm:
    """The learning rate has more than doubled from one step to the next."""

    jump: LearningRateJump

    @property
    def step(self) -> int:
        return self.jump.step

    @property
    def location(self) -> Location:
        return Location()

    def __str__(self) -> str:
        before, after = self.jump.before, self.jump.after
        return (
            f"step {self.step}: the learning rate rose from {short(before)} to {short(after)} in one step, "
            f"{short(after / before)} times. If that was not intended, restore the scheduler with the optimiser when "
            "training is resumed, or add a warm-up"
        )


Alarm = UpdateAlarm | VanishedGradientAlarm | NonFiniteAlarm | SpikeAlarm | LearningRateAlarm
ADVICE_ON_SPIKES = (
    "Examine this batch; if spikes recur, lower the learning rate or Adam's β₂, lengthen the warm-up, or clip the "
    "gradient"
)


def describe_spike(spike: Spike) -> str:
    """`the loss is 9.1, 12 standard deviations above the mean of 2.3 …; 0.8 of the excess is in layers.3`."""
    above = (spike.value - spike.mean) / spike.deviation
    text = (
        f"the {spike.quantity} is {short(spike.value)}, {short(above)} standard deviations above the mean of "
        f"{short(spike.mean)} of the steps before"
    )
    if spike.parameters:
        first = spike.parameters[0]
        text += (
            f"; {short(spike.layer_share, 2)} of the excess of the squared gradient is in {spike.location}, most in "
            f"{first.location.module}"
        )
        if first.usual_norm:
            text += f", {short(first.gradient_norm / first.usual_norm)} times its usual gradient"
        if first.surprise is not None and isfinite(first.surprise):
            text += f" and {short(first.surprise)} times what Adam's v expects"
    return text + (f" (batch: {spike.batch})" if spike.batch is not None else "")


class BandOptions(Options):
    window: int = Field(20, ge=4)
    """Number of latest updates that define the band."""
    min_observed: Annotated[int, Formerly("least")] = Field(5, ge=3)
    """Number of updates that must have been observed before one can be outside."""
    width: float = Field(4.0, gt=0)
    """The distance of the band's edge from the median, in robust standard deviations."""
    factor: float = Field(1.5, gt=1)
    """The smallest ratio to the median at which an update can be outside."""
    alarm_share: Annotated[float, Formerly("share")] = Field(0.2, gt=0, le=1)
    """The share of all matrices that must be outside at once for an alarm. In 21 small runs that trained well up to a
    seventh were; in two that were driven into divergence it was a third."""


class UpdateBand:
    """The band of one series of updates."""

    def __init__(self, options: BandOptions) -> None:
        self.options = options
        self._logarithms: deque[float] = deque(maxlen=options.window)

    def add(self, size: float) -> float | None:
        """Add an update; returns its ratio to the median if it lies outside the band of those before it."""
        if not math.isfinite(size):
            return size
        if size <= 0:  # nothing was updated, as in a skipped step
            return None
        logarithm, before = math.log(size), list(self._logarithms)
        self._logarithms.append(logarithm)
        if len(before) < self.options.min_observed:
            return None
        usual = median(before)
        deviation = GAUSSIAN * median(abs(each - usual) for each in before)
        reach = max(self.options.width * deviation, math.log(self.options.factor))
        return math.exp(logarithm - usual) if logarithm - usual > reach else None


class UpdateBands:
    """The bands of all matrices."""

    def __init__(self, options: BandOptions) -> None:
        self.options = options
        self._bands: dict[Location, UpdateBand] = defaultdict(lambda: UpdateBand(options))

    def add(self, matrices: Sequence[MatrixObservation]) -> tuple[OutsideBand, ...]:
        """Add the updates of one step, each divided by its learning rate; returns those outside their bands."""
        found = {
            each.location: self._bands[each.location].add(each.relative_update / each.learning_rate)
            for each in matrices
            if each.relative_update is not None and each.learning_rate
        }
        return tuple(
            OutsideBand(location=location, times_usual=times) for location, times in found.items() if times is not None
        )

    def is_unstable(self, outside: Sequence[OutsideBand], total: int) -> bool:
        """Whether many updates are outside their bands at once, or one is not finite; single ones are usual."""
        not_finite = not all(math.isfinite(each.times_usual) for each in outside)
        return not_finite or (bool(outside) and len(outside) >= self.options.alarm_share * total)


def update_alarm(observation: Observation) -> UpdateAlarm | None:
    """The alarm of an observation in which enough updates left their bands."""
    if not observation.unstable:
        return None
    furthest = observation.furthest
    return UpdateAlarm(
        step=observation.step,
        location=furthest.location,
        times_usual=furthest.times_usual,
        outside=len(observation.outside),
        total=observation.num_updates,
    )


def vanished_gradient_alarm(observation: Observation, threshold: float) -> VanishedGradientAlarm | None:
    """The alarm of an observation in which a layer has less than this share of the last layer's gradient norm."""
    stack = observation.output_stack
    found = None if stack is None else weakest_by_stack(observation).get(stack)
    if found is None or found.share >= threshold:
        return None
    return VanishedGradientAlarm(
        step=observation.step,
        location=Location(stack=stack, layer=found.layer),
        last_layer=found.last,
        share=found.share,
    )
