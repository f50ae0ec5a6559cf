"""The base of the optimisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.distributed.tensor import DTensor

from lamina.options import Options as OwnOptions

if TYPE_CHECKING:
    from lamina.training.optimisers import OptimiserOptions

ParameterGroups = list[dict[str, Any]]
"""Parameter groups as torch's optimisers take them, each with `params` and `weight_decay`."""


class Optimiser:
    """An update rule: a `name`, `build` and `state_tensors`, and nested `Options` where the shared ones are too few."""

    name: ClassVar[str]
    result_version: ClassVar[int] = 1
    """Raise it when the optimiser updates weights differently than before: its finished runs are then trained again.
    Not inherited."""
    is_adaptive: ClassVar[bool] = False
    """Whether a step moves each weight by about the learning rate, as Adam's does, whatever the gradient's size."""

    class Options(OwnOptions):
        """The options of the optimiser, given in a config's [optimiser.options]."""

    def __init__(self, shared: OptimiserOptions) -> None:
        self.shared = shared
        self.own: Any = shared.options

    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        """Torch's optimiser of these parameters, with learning rate 0."""
        raise NotImplementedError

    def state_tensors(self) -> int:
        """The number of state tensors of the same size for each weight: 2 for Adam, its two moments."""
        raise NotImplementedError


def use_fused(groups: ParameterGroups, *, sharded: bool = True) -> bool | None:
    """Whether to ask for the fused kernel, one pass over memory; None leaves the choice to torch.

    On a CPU it is three times as fast as the loop over parameters, and foreach is not faster than that loop. Other
    devices may lack the kernel. `sharded` says whether it takes parameters that are sharded over processes.
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not sharded and any(isinstance(each, DTensor) for each in parameters):
        return None
    return True if {each.device.type for each in parameters} in ({"cpu"}, {"cuda"}) else None
