"""Attention against its definition: softmax(QKᵀ/√d)V, one sequence and one head at a time."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from lamina import UserError
from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.sequences import Sequences
from support.plain_attention import LENGTHS, MEMORY_LENGTHS, by_definition

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize(("causal", "rotary", "kv_heads"), [*product([False, True], [False, True], [1, 2, 4])])
def test_self_attention(causal: bool, rotary: bool, kv_heads: int) -> None:
    attention = SelfAttention(8, 4, causal=causal, rotary=rotary, num_kv_heads=kv_heads)
    x = torch.randn(sum(LENGTHS), 8)
    expected = torch.cat([by_definition(attention, part, part, causal=causal) for part in x.split(LENGTHS)])
    torch.testing.assert_close(attention(x, Sequences(LENGTHS)), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_cross_attention(kv_heads: int) -> None:
    attention = CrossAttention(8, 4, num_kv_heads=kv_heads)
    x, memory = torch.randn(sum(LENGTHS), 8), torch.randn(sum(MEMORY_LENGTHS), 8)
    pairs = zip(x.split(LENGTHS), memory.split(MEMORY_LENGTHS), strict=True)
    expected = torch.cat([by_definition(attention, part, source, causal=False) for part, source in pairs])
    actual = attention(x, Sequences(LENGTHS), memory, Sequences(MEMORY_LENGTHS))
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 10, "num_heads": 4}, "width 10 is not divisible by 4 heads; change"),
        ({"dim": 8, "num_heads": 4, "num_kv_heads": 3}, "4 heads cannot share 3 key-value heads"),
        ({"dim": 12, "num_heads": 4, "rotary": True}, "even head width, not 3"),
    ],
)
def test_sizes_that_do_not_fit(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SelfAttention(**arguments)
