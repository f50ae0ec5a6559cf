"""Streams as one tensor, and back."""

from __future__ import annotations

import pytest
import torch

from lamina.interop.rewiring.streams import Streams
from lamina.residual import build
from lamina.residual.base import Shape
from lamina.residual.norm import NormOptions


@pytest.mark.parametrize(
    ("scheme", "width"), [("post-ln", 8), ("resi-dual", 16), ("b2t", 16), ("hyper-connections", 32)]
)
def test_joining_and_splitting(scheme: str, width: int) -> None:
    streams = Streams(build(scheme, Shape(8, 2, 4), NormOptions(), {}))
    state = streams.open(torch.randn(2, 3, 8))
    joined = streams.join(state)
    assert joined.shape == (2, 3, width)
    torch.testing.assert_close(streams.split(joined), state)
    assert streams.close(streams.split(joined)).shape == (2, 3, 8)
