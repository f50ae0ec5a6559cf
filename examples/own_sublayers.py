"""Your own modules as sub-layers, connected by any residual scheme, in your own training loop.

The modules return the branch only: no residual sum and no layer norm, which are the scheme's part.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import lamina

WIDTH, LAYERS = 32, 12


class Mixer(nn.Module):
    """Each position receives a weighted mean of the earlier ones; stands for an attention of your own."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, decay: float = 0.5) -> Tensor:
        distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        weights = torch.where(distance >= 0, decay ** distance.clamp(min=0), 0.0)  # (length, length)
        return weights / weights.sum(-1, keepdim=True) @ self.value(x)  # (batch, length, width)


def build(residual: str) -> lamina.Stack:
    layers = [[Mixer(), nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))] for _ in range(LAYERS)]
    # Schemes that scale the initial weights must know what each matrix does; the others need no roles.
    roles = {"*.value": "value", "*.0": "inner", "*.2": "outer"}
    return lamina.Stack(layers, model_dim=WIDTH, residual=residual, roles=roles, init="xavier")


def train(residual: str, steps: int = 30) -> float:
    torch.manual_seed(0)
    stack = build(residual)
    optimiser = torch.optim.Adam(stack.parameters(), lr=1e-3)
    x = torch.randn(8, 10, WIDTH)
    for _ in range(steps):
        # The keyword reaches the sub-layers whose forward names it.
        loss = (stack(x, decay=0.7) - x.roll(1, dims=1)).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return loss.item()


if __name__ == "__main__":
    for scheme in ("post-ln", "pre-ln", "b2t", "deep-norm"):
        print(f"{scheme:10} loss {train(scheme):.3f}")
