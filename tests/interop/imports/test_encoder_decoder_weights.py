"""Sinusoids in halves: those of Marian in transformers, and those of fairseq."""

from __future__ import annotations

import math

import pytest
import torch

from lamina.interop.imports.encoder_decoder_weights import halved_sinusoids


@pytest.mark.parametrize(("first", "last", "divisor"), [(0, False, 4.0), (2, True, 3.0)])
def test_sinusoids(first: int, last: bool, divisor: float) -> None:
    table = halved_sinusoids(5, 8, first=first, last_wavelength=last)
    assert table.shape == (5, 8)
    for place in range(5):
        for channel in range(4):
            angle = (place + first) * 10_000 ** (-channel / divisor)
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            torch.testing.assert_close(table[place, [channel, channel + 4]], expected, atol=1e-6, rtol=1e-6)
