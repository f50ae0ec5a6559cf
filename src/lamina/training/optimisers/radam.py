"""Rectified Adam (Liu et al. 2020): no second moment until its variance is bounded, so it needs no warm-up.

Weight decay is decoupled, as in the authors' code. Torch has no fused kernel for it.
"""

from __future__ import annotations

import torch

from lamina.training.optimisers.base import Optimiser, ParameterGroups


class RAdam(Optimiser):
    name = "radam"
    is_adaptive = True

    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        shared = self.shared
        return torch.optim.RAdam(groups, lr=0.0, betas=shared.betas, eps=shared.eps, decoupled_weight_decay=True)

    def state_tensors(self) -> int:
        return 2
