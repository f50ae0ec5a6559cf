"""Mixed precision: products in bf16 or fp16 by autocast, and the loss scale that fp16 needs. Weights stay in fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lamina.training.bf16 import make_bf16_safe

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SMALLEST_SCALE = 2.0**-14  # of an fp16 loss: gradients that overflow even at this scale count as a divergence


class Precision:
    """The precision of a run, by its name in the config."""

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "bf16" and device.type == "cpu":
            make_bf16_safe()
        self._device, self._dtype = device.type, DTYPES[name]
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

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

    def may_skip(self) -> bool:
        """Whether a step whose gradients are not finite is only skipped: in fp16, until the scale is the smallest."""
        return self.scaler.is_enabled() and self.scaler.get_scale() > SMALLEST_SCALE

    def state(self) -> dict[str, Any]:
        return self.scaler.state_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the loss scale of a checkpoint; one made in another precision has none."""
        if state:
            self.scaler.load_state_dict(dict(state))
