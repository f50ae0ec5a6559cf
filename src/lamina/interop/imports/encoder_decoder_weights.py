"""The layers of an encoder–decoder under the names that fairseq gives them, and Marian and BART in transformers too."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions, pair
from lamina.residual.pre_ln import PreLN

ATTENTION = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj"))
FIXED_POSITIONS = (
    "its sinusoids differ from Lamina's in order or wavelengths, so they become a table of learned positions, which "
    "further training would change"
)


def map_layers(weights: WeightMapping, options: ModelOptions, prefix: str) -> None:
    """Take the layers of both stacks, and the norms after pre-LN stacks."""
    dim, inner = options.model_dim, options.feed_forward_dim
    for which, stack in enumerate(("encoder", "decoder")):
        attentions = ["self_attn", "encoder_attn"][: which + 1]
        norms = [*(f"{each}_layer_norm" for each in attentions), "final_layer_norm"]
        for layer in range(pair(options.num_layers)[which]):
            theirs, ours = f"{prefix}{stack}.layers.{layer}", f"{stack}.layers.{layer}"
            for site, name in enumerate(norms):
                weights.norm(f"{ours}.sites.{site}.norm", f"{theirs}.{name}", dim)
            for place, attention in enumerate(attentions):
                for own, name in ATTENTION:
                    weights.linear(f"{ours}.sublayers.{place}.{own}", f"{theirs}.{attention}.{name}", dim, dim)
            weights.linear(f"{ours}.sublayers.{which + 1}.inner", f"{theirs}.fc1", inner, dim)
            weights.linear(f"{ours}.sublayers.{which + 1}.outer", f"{theirs}.fc2", dim, inner)
        if pair(options.residual)[which] == PreLN.name:
            weights.norm(f"{stack}.residual.final_norm", f"{prefix}{stack}.layer_norm", dim)


def halved_sinusoids(count: int, dim: int, *, first: int = 0, last_wavelength: bool = False) -> Tensor:
    """Sines in the first half of the channels and cosines in the second, of the positions from `first`: (count, dim).

    last_wavelength: whether the wavelengths reach 10000 · 2π, as fairseq's do, or the step before it, as in the paper.
    """
    half = (dim + 1) // 2
    steps = torch.arange(half, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10_000) * (steps / (half - 1) if last_wavelength else 2 * steps / dim))
    angles = torch.arange(first, first + count, dtype=torch.float64).unsqueeze(1) * frequencies
    return torch.cat([angles.sin(), angles.cos()[:, : dim - half]], dim=1).float()
