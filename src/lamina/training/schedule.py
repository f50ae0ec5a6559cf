"""The learning rate as a pure function of the step t, counted from 1: peak × warm-up × decay.

| name                     | decay                                                             | from              |
| ------------------------ | ----------------------------------------------------------------- | ----------------- |
| `inverse-root`           | √(D / max(t, D)), D ≥ T                                           | Xiong eq. 1       |
| `linear`                 | from 1 at the end of the warm-up to 0 at the last step            | ResiDual, Admin   |
| `constant`               | 1                                                                 | Xiong fig. 6      |
| `step`                   | 1, and a factor after some epochs                                 | Xiong 4.1, IWSLT  |
| `step-then-inverse-root` | 1 to the end of an epoch, its step t₆; then √(t₆ / t)             | Xiong 4.1, WMT    |
| `shifted-root`           | √(D / (D + t)), no warm-up                                        | Huang et al. 2020 |

The warm-up is t / T up to step T: T = 1 means none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from lamina.errors import UserError
from lamina.options import Formerly, Options

Schedule = Callable[[int], float]
"""The learning rate of a step."""


class ScheduleOptions(Options):
    name: Literal["inverse-root", "linear", "constant", "step", "step-then-inverse-root", "shifted-root"] = (
        "inverse-root"
    )
    """The form of the decay, see the table in `lamina.training.schedule`."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5e-4
    """The peak learning rate."""
    warmup_steps: PositiveInt | None = None
    """Number of steps of linear warm-up to the peak learning rate; 1 for no warm-up. By default 4,000 for
    `inverse-root` and `linear`, no warm-up for the others."""
    decay_steps: PositiveInt | None = None
    """D in the formulas of `inverse-root` (the step at which the decay begins; by default the end of the warm-up) and
    of `shifted-root` (4,000 by default)."""
    constant_epochs: PositiveInt | None = None
    """Number of epochs at the peak learning rate before the decay: by default 7 for `step`, 6 for
    `step-then-inverse-root` (Xiong et al. 2020)."""
    decay_factor: Annotated[float, Field(gt=0, le=1), Formerly("factor")] = 0.1
    """Factor that `step` multiplies the learning rate by."""

    @property
    def warmup(self) -> int:
        return self.warmup_steps or (4000 if self.name in ("inverse-root", "linear") else 1)

    @property
    def decay(self) -> int:
        return self.decay_steps or (4000 if self.name == "shifted-root" else self.warmup)

    @property
    def constant(self) -> int:
        return self.constant_epochs or (7 if self.name == "step" else 6)

    def resolved(self) -> Self:
        """The options with the defaults of all numbers that the schedule uses written out."""
        filled = {"warmup_steps": self.warmup}
        if self.name in ("inverse-root", "shifted-root"):
            filled["decay_steps"] = self.decay
        if self.name in ("step", "step-then-inverse-root"):
            filled["constant_epochs"] = self.constant
        return self.model_copy(update=filled)

    @property
    def depends_on_length(self) -> bool:
        """Whether the learning rate of a step depends on how many steps there are in all."""
        return self.name == "linear"

    def check_length(self, total_steps: int) -> None:
        """Refuse a `linear` schedule whose warm-up does not end before the last step."""
        if self.depends_on_length:
            _ends_before(self.warmup, total_steps - 1, "the last step")

    def notes(self, total_steps: int) -> Iterator[str]:
        """Notes about a schedule that is allowed but rarely intended."""
        if self.name == "inverse-root" and self.decay == 1 and total_steps > 1:
            last = inverse_root(total_steps, self.decay)
            yield (
                f"schedule: without warm-up, inverse-root lowers the learning rate from the first step on, to "
                f"{last:.2g} of its peak at step {total_steps:,}; "
                "schedule.decay_steps is the step at which the decay begins"
            )
        if self.warmup > total_steps:
            yield (
                f"schedule: the warm-up of {self.warmup:,} steps is longer than the run of {total_steps:,}, so that "
                "the peak learning rate is not reached; set schedule.warmup_steps or train.steps"
            )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name == "shifted-root" and self.warmup > 1:
            raise ValueError("the schedule 'shifted-root' has no warm-up; leave warmup_steps out")
        if self.name == "inverse-root" and self.decay < self.warmup:
            raise ValueError(f"decay_steps must be at least warmup_steps, {self.warmup}, not {self.decay}")
        return self


def build_schedule(options: ScheduleOptions, *, total_steps: int, steps_per_epoch: int) -> Schedule:
    """The learning rate of every step of a run of `total_steps`."""
    decay = _decay(options, total_steps, steps_per_epoch)
    return lambda step: options.learning_rate * warm_up(step, options.warmup) * decay(step)


def _decay(options: ScheduleOptions, total_steps: int, steps_per_epoch: int) -> Schedule:
    last_constant = options.constant * steps_per_epoch
    match options.name:
        case "inverse-root":
            return partial(inverse_root, decay_steps=options.decay)
        case "shifted-root":
            return partial(shifted_root, decay_steps=options.decay)
        case "constant":
            return lambda step: 1.0
        case "linear":
            options.check_length(total_steps)
            return partial(linear, first=options.warmup, last=total_steps)
        case "step":
            _ends_before(options.warmup, last_constant, "the learning rate falls")
            return partial(step_down, last_constant=last_constant, factor=options.decay_factor)
        case "step-then-inverse-root":
            _ends_before(options.warmup, last_constant, "the learning rate falls")
            return partial(inverse_root, decay_steps=last_constant)


def warm_up(step: int, steps: int) -> float:
    return min(1.0, step / steps)


def inverse_root(step: int, decay_steps: int) -> float:
    return math.sqrt(decay_steps / max(step, decay_steps))


def linear(step: int, first: int, last: int) -> float:
    return min(1.0, max(0.0, (last - step) / (last - first)))


def step_down(step: int, last_constant: int, factor: float) -> float:
    return 1.0 if step <= last_constant else factor


def shifted_root(step: int, decay_steps: int) -> float:
    return math.sqrt(decay_steps / (decay_steps + step))


def _ends_before(warmup: int, latest: int, what: str) -> None:
    if warmup > latest:
        raise UserError(
            f"schedule: the warm-up of {warmup} steps must end by step {latest}, before {what}; "
            f"set a smaller warmup_steps or train longer."
        )
