"""Adam with decoupled weight decay (Loshchilov and Hutter 2019): w ← (1 − ηλ)w before Adam's update."""

from __future__ import annotations

import torch

from lamina.training.optimisers.base import Optimiser, ParameterGroups, use_fused


class AdamW(Optimiser):
    name = "adamw"
    is_adaptive = True

    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        shared = self.shared
        return torch.optim.AdamW(groups, lr=0.0, betas=shared.betas, eps=shared.eps, fused=use_fused(groups))

    def state_tensors(self) -> int:
        return 2
