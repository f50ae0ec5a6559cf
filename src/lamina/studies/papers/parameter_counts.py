"""Numbers of parameters of the papers' models under different residual schemes, counted on models without weights."""

from __future__ import annotations

from typing import Any

import torch

from lamina.model.transformer import Transformer


def count_parameters(preset: str, residual: str, depth: int | tuple[int, int], **changes: Any) -> int:
    """The number of parameters of a preset with a scheme and a depth."""
    with torch.device("meta"):
        return Transformer.from_preset(preset, residual=residual, num_layers=depth, **changes).num_parameters()
