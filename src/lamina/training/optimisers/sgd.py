"""Stochastic gradient descent, with momentum if asked for: b ← μb + g,  w ← w − ηb."""

from __future__ import annotations

import torch

from lamina.training.optimisers.base import Optimiser, ParameterGroups, use_fused


class SGD(Optimiser):
    name = "sgd"

    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        fused = use_fused(groups, sharded=False)
        return torch.optim.SGD(groups, lr=0.0, momentum=self.shared.momentum, fused=fused)

    def state_tensors(self) -> int:
        return 1 if self.shared.momentum else 0
