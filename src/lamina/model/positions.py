"""Positions: sinusoidal and learned ones are added to the embedding, rotary ones turn queries and keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.errors import UserError


class Sinusoids(nn.Module):
    """PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos of the same (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, positions: Tensor, longest: int, like: Tensor) -> Tensor:
        """(tokens,) → (tokens, dim). The table is made for the positions in use: any length works, on any device."""
        angles = torch.arange(longest, device=positions.device).unsqueeze(1) * frequencies(self.dim, positions.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, : self.dim]
        return table.to(like.dtype)[positions]


class LearnedPositions(nn.Module):
    def __init__(self, max_length: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, dim)

    def forward(self, positions: Tensor, longest: int, like: Tensor) -> Tensor:
        if longest > self.table.num_embeddings:
            raise UserError(
                f"a sequence of {longest} tokens is longer than the {self.table.num_embeddings} learned positions; "
                "shorten it, or build the model with a larger max_length"
            )
        return self.table(positions)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021): turn each pair of channels of (tokens, heads, head_dim) by its angle."""
    angles = positions.unsqueeze(1) * frequencies(x.shape[-1], x.device)  # (tokens, head_dim / 2)
    cos, sin = angles.cos().unsqueeze(1).to(x.dtype), angles.sin().unsqueeze(1).to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def frequencies(dim: int, device: torch.device) -> Tensor:
    """10000^(-2i/d) for i = 0 … d/2, in single precision at least: an angle is a large number."""
    dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
    return 10000.0 ** (-torch.arange(0, dim, 2, device=device, dtype=dtype) / dim)
