"""A padded batch of token ids, and the sizes of a small model."""

from __future__ import annotations

import torch

SMALL = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40, "dropout": 0.0, "num_layers": 2}


TOKENS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [11, 12, 13, 14, 0]])


REAL = TOKENS != 0
