"""Mixed precision: products in bf16 or fp16 by autocast, and the loss scale that fp16 needs. Weights stay in fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor
from torch.optim import Optimizer

from lamina.options import Options
from lamina.training.machine.bf16 import make_bf16_safe

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class LossScaleOptions(Options):
    """The dynamic loss scale of fp16: halved when gradients overflow, doubled after a number of steps without."""

    initial: float = Field(65536.0, gt=0)
    """The scale at the first step."""
    window: PositiveInt = 2000
    """Number of steps in a row without an overflow after which the scale is doubled; fairseq's --fp16-scale-window."""
    minimum: Annotated[float, Field(gt=0)] | None = None
    """The scale is not reduced below this value: at it, steps that overflow are skipped; fairseq's
    --threshold-loss-scale."""
    stop_at: float = Field(2.0**-14, ge=0)
    """Training ends as diverged if gradients overflow at this scale or a smaller one; fairseq's --min-loss-scale."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        smallest = max(self.minimum or 0.0, self.stop_at)
        if self.initial < smallest:
            raise ValueError(f"initial {self.initial:g} is below the smallest scale, {smallest:g}")
        return self


class Precision:
    """The precision of a run, by its name in the config."""

    def __init__(self, name: str, device: torch.device, loss_scale: LossScaleOptions | None = None) -> None:
        if name == "bf16" and device.type == "cpu":
            make_bf16_safe()
        self._device, self._dtype = device.type, DTYPES[name]
        self._options = loss_scale or LossScaleOptions()
        self.scaler = torch.amp.GradScaler(
            device.type,
            init_scale=self._options.initial,
            growth_interval=self._options.window,
            enabled=name == "fp16",
        )

    def autocast(self) -> torch.autocast:
        """The context of the forward pass."""
        return torch.autocast(self._device, self._dtype, enabled=self._dtype != torch.float32)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of the scaled loss to the parameters."""
        torch.autograd.backward(self.scaler.scale(loss))

    def unscale(self, optimiser: Optimizer) -> None:
        """Divide the gradients by the scale of the loss, before they are clipped."""
        self.scaler.unscale_(optimiser)

    def step(self, optimiser: Optimizer) -> None:
        """A step of the optimiser, skipped where scaled gradients overflowed; then adapt the scale."""
        self.scaler.step(optimiser)
        self.scaler.update()
        minimum = self._options.minimum
        if minimum is not None and self.scaler.is_enabled() and self.scaler.get_scale() < minimum:
            self.scaler.update(minimum)

    def may_skip(self) -> bool:
        """Whether a step whose gradients are not finite is only skipped: in fp16, while the scale is large enough."""
        return self.scaler.is_enabled() and self.scaler.get_scale() > self._options.stop_at

    @property
    def at_smallest_scale(self) -> str:
        """The part of a message that says that training ends because of the loss scale; empty where it does not."""
        if not self.scaler.is_enabled() or self.may_skip():
            return ""
        return f" at a loss scale of {self.scaler.get_scale():.2g}, where train.loss_scale.stop_at ends training"

    def state(self) -> dict[str, Any]:
        return self.scaler.state_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the loss scale of a checkpoint; one made in another precision has none."""
        if state:
            self.scaler.load_state_dict(dict(state))
            self.scaler.set_growth_interval(self._options.window)
