"""Adam and AdamW of torch with less work around their fused kernel on a CPU.

A narrow and deep model has hundreds of small parameters. Torch collects their states anew at every step and increments
as many step counters, which takes twice as long as the kernel. Here the lists are kept, and the counters are the
elements of one vector. State and results are those of torch.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn


def _without_hooks(step: Any) -> Any:
    """A class's step without the hooks that torch adds when an optimiser of that class is built.

    Torch adds them to each class once: those of the derived class run already.
    """
    return step.__wrapped__ if getattr(step, "hooked", False) else step


class _KeptLists:
    """The tensors of a parameter group, in the order of the kernel's arguments."""

    def __init__(self, group: dict[str, Any], states: dict[Tensor, dict[str, Any]]) -> None:
        self.parameters: list[Tensor] = group["params"]
        self.first = [states[each]["exp_avg"] for each in self.parameters]
        self.second = [states[each]["exp_avg_sq"] for each in self.parameters]
        self.counters = torch.stack([states[each]["step"] for each in self.parameters])
        self.steps = list(self.counters.unbind())
        for parameter, step in zip(self.parameters, self.steps, strict=True):
            states[parameter]["step"] = step

    def are_those_of(self, states: dict[Tensor, dict[str, Any]]) -> bool:
        """Whether no state was loaded since: that replaces all tensors."""
        return states[self.parameters[0]]["exp_avg"] is self.first[0]


class FusedStep(torch.optim.Optimizer):
    """The step of Adam and AdamW; torch's own is used where it does more than the kernel on a CPU."""

    _decoupled = False
    _kept: list[_KeptLists] | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        gradients = [[parameter.grad for parameter in group["params"]] for group in self.param_groups]
        has_all = all(each is not None for group in gradients for each in group)
        is_scaled = hasattr(self, "grad_scale") or hasattr(self, "found_inf")  # the loss scale of fp16
        if closure is not None or is_scaled or not has_all or not self._keep_lists():
            self._kept = None
            usual: Any = super().step
            return _without_hooks(usual.__func__)(self, closure)
        assert self._kept is not None
        update = torch._fused_adamw_ if self._decoupled else torch._fused_adam_
        for group, lists, given in zip(self.param_groups, self._kept, gradients, strict=True):
            lists.counters += 1
            update(
                lists.parameters,
                cast(list[Tensor], given),
                lists.first,
                lists.second,
                [],
                lists.steps,
                amsgrad=False,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
        return None

    def _keep_lists(self) -> bool:
        """Whether the lists of all groups are kept, as they are for plain parameters of one type on a CPU."""
        if self._kept is not None and all(each.are_those_of(self.state) for each in self._kept):
            return True
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        is_plain = all(
            type(each) is nn.Parameter and each.device.type == "cpu" and each.dtype == every[0].dtype for each in every
        )
        is_usual = not any(group["amsgrad"] or group["maximize"] for group in self.param_groups)
        if not is_plain or not is_usual or any(len(self.state[each]) != 3 for each in every):
            return False
        self._kept = [_KeptLists(group, self.state) for group in self.param_groups]
        return True


class FusedAdam(FusedStep, torch.optim.Adam):
    """`torch.optim.Adam` with this step."""


class FusedAdamW(FusedStep, torch.optim.AdamW):
    """`torch.optim.AdamW` with this step."""

    _decoupled = True


# Checkpoints record the name of the class; theirs are those of torch.
FusedAdam.__name__, FusedAdamW.__name__ = "Adam", "AdamW"
