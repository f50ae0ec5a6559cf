"""Adam with decoupled weight decay (Loshchilov and Hutter 2019): w ← (1 − ηλ)w before Adam's update."""

from __future__ import annotations

from lamina.training.optimisers import fused_adam
from lamina.training.optimisers.adam import Adam


class AdamW(Adam):
    name = "adamw"
    torch_class = fused_adam.FusedAdamW
