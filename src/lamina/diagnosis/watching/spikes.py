"""Spikes: a loss or gradient norm far above those before it, with the layers and matrices that it comes from.

    value > mean + 6σ        over the last 128 values

For every parameter the record has the share of the excess ‖g‖² − (usual ‖g‖)², which adds up to the whole, and Adam's m
and v: a second moment v that is far below g² was made from smaller gradients, and the update of this step is too large
(Wortsman et al. 2023, "Stable and low-precision training for large-scale vision-language models", section 3).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from math import isfinite, nan
from statistics import fmean, pstdev
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from lamina.diagnosis.measurement import Location, TypedResult
from lamina.options import Options

MOST_PARAMETERS = 8
"""The largest number of parameters that the record of a spike lists."""

SpikeQuantity = Literal["loss", "gradient norm"]


class SpikeOptions(Options):
    window: int = Field(128, ge=8)
    """Number of latest values that a spike is compared with."""
    min_observed: int = Field(32, ge=4)
    """Number of values that must have been seen before one can be a spike."""
    deviations: float = Field(6.0, gt=0)
    """Standard deviations above the mean, from which on a value is a spike."""


class BatchIdentity(TypedResult):
    """What identifies a batch, as far as it is known."""

    sha256: str = ""
    """The hash of the bytes of all tensors that the model was called with, in their order."""
    examples: tuple[int, ...] = ()
    """The indices of its examples."""
    epoch: int | None = None
    number: int | None = None
    """The number of the batch in its epoch."""

    def __str__(self) -> str:
        parts = [f"epoch {self.epoch}, batch {self.number}"] if self.epoch is not None else []
        shown = ", ".join(map(str, self.examples[:8])) + (", …" if len(self.examples) > 8 else "")
        parts += [f"examples {shown}"] if self.examples else []
        parts += [f"SHA-256 {self.sha256[:16]}…"] if self.sha256 else []
        return ", ".join(parts)


class SpikeParameter(TypedResult):
    """A parameter in a spike, with the state of its optimiser before the step."""

    location: Location
    """Stack and layer, and the path of the parameter."""
    share: float
    """Its share of the excess of the squared gradient norm over the usual one."""
    gradient_norm: float
    usual_norm: float
    """The mean of its gradient norms before."""
    first_moment: float | None = None
    """The root mean square of Adam's m."""
    second_moment: float | None = None
    """√(mean v̂), v̂ Adam's second moment with its bias corrected."""
    surprise: float | None = None
    """The root mean square of the gradient ÷ √(mean v̂): about 1 where gradients have their usual size."""


class Spike(TypedResult):
    """A step whose loss or gradient norm was far above those before it."""

    step: int
    quantity: SpikeQuantity
    value: float
    mean: float
    deviation: float
    """Mean and standard deviation of the values before."""
    location: Location = Location()
    """The layer with the largest share of the excess; where none is known, the model."""
    layer_share: float = nan
    parameters: tuple[SpikeParameter, ...] = ()
    """Those with the largest shares, the largest first."""
    batch: BatchIdentity | None = None
    observed_at: int
    """The step at which the optimiser's state was read: later than `step` where numbers are read every few steps."""


class LearningRateJump(TypedResult):
    """A learning rate that more than doubled, or fell by more than half, from one step to the next."""

    step: int
    before: float
    after: float


class SpikeDetector:
    """Compares each value of a series with those before it."""

    def __init__(self, options: SpikeOptions) -> None:
        self.options = options
        self._values: deque[float] = deque(maxlen=options.window)
        self._in_spike = False

    def add(self, value: float) -> tuple[float, float] | None:
        """Mean and standard deviation of the values before, if this one begins a spike.

        Of several steps in a row only the first counts. A spike is added to the window as the limit mean + 6σ, not as
        its own value: the limit then stays low enough for the next spike, and follows values that remain high.
        """
        if not isfinite(value):
            return None
        enough = len(self._values) >= self.options.min_observed
        mean, deviation = (fmean(self._values), pstdev(self._values)) if enough else (value, 0.0)
        limit = mean + self.options.deviations * deviation
        is_spike = enough and value > limit and deviation > 0
        begins, self._in_spike = is_spike and not self._in_spike, is_spike
        self._values.append(min(value, limit) if is_spike else value)
        return (mean, deviation) if begins else None


class UsualNorms:
    """The mean gradient norm of every parameter over the last steps."""

    def __init__(self, options: SpikeOptions) -> None:
        self._rows: deque[NDArray[np.float64]] = deque(maxlen=options.window)

    def add(self, norms: NDArray[np.float64]) -> None:
        if np.isfinite(norms).all():
            self._rows.append(norms)

    def mean(self, like: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.mean(self._rows, axis=0) if self._rows else np.zeros_like(like)


def find_excess(
    norms: NDArray[np.float64], usual: NDArray[np.float64], locations: Sequence[Location]
) -> tuple[Location, float, list[tuple[int, float]]]:
    """The layer with the largest share of the excess, that share, and the parameters with the largest shares."""
    excess = np.maximum(np.square(norms) - np.square(usual), 0.0)
    total = float(excess.sum())
    if not total or not isfinite(total):
        return Location(), nan, []
    shares = excess / total
    layers: Mapping[Location, float] = defaultdict(float)
    for location, share in zip(locations, shares, strict=True):
        place = location.model_copy(update={"module": None}) if location.layer is not None else location
        layers[place] += float(share)  # type: ignore[index]
    worst = max(layers, key=lambda each: layers[each])
    first = sorted(range(len(shares)), key=lambda at: -shares[at])[:MOST_PARAMETERS]
    return worst, layers[worst], [(at, float(shares[at])) for at in first if shares[at] > 0.001]


def moments(optimiser: Optimizer, parameter: Tensor, gradient_norm: float) -> dict[str, float]:
    """The fields of `SpikeParameter` that come from Adam's state; none of another optimiser, or of sharded weights."""
    state = optimiser.state.get(parameter, {})
    first, second = state.get("exp_avg"), state.get("exp_avg_sq")
    if not isinstance(first, Tensor) or not isinstance(second, Tensor) or isinstance(second, DTensor):
        return {}
    group = next(group for group in optimiser.param_groups if any(each is parameter for each in group["params"]))
    correction = 1 - group["betas"][1] ** float(state.get("step", 1)) if "betas" in group else 1.0
    with torch.no_grad():
        root = float((second.float().mean() / correction).sqrt())
        size = float(first.float().square().mean().sqrt())
    surprise = gradient_norm / parameter.numel() ** 0.5 / root if root else nan
    return {"first_moment": size, "second_moment": root, "surprise": surprise}
