"""Adam (Kingma and Ba 2015), with weight decay as part of the gradient.

m ← β₁m + (1 − β₁)g,  v ← β₂v + (1 − β₂)g²,  w ← w − η m̂ ÷ (√v̂ + ε)
"""

from __future__ import annotations

from typing import ClassVar

import torch

from lamina.training.optimisers import fused_adam
from lamina.training.optimisers.base import Optimiser, ParameterGroups, use_fused


class Adam(Optimiser):
    name = "adam"
    is_adaptive = True
    torch_class: ClassVar[type[torch.optim.Adam]] = fused_adam.FusedAdam

    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        shared = self.shared
        return self.torch_class(groups, lr=0.0, betas=shared.betas, eps=shared.eps, fused=use_fused(groups))

    def state_tensors(self) -> int:
        return 2
