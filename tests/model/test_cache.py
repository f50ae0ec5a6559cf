"""The key-value cache: incremental decoding gives what a whole pass gives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from lamina import UserError
from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.cache import Cache
from lamina.model.sequences import Sequences
from support.plain_attention import MEMORY_LENGTHS, by_definition

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("steps", [[[4, 1, 3]], [[1, 1, 1], [1, 1, 1], [2, 1, 3]], [[2, 1, 1], [1, 3, 1], [1, 1, 1]]])
def test_cache_gives_what_a_whole_pass_gives(steps: list[list[int]], rotary: bool) -> None:
    """Rows of different lengths, several tokens at a time."""
    attention = SelfAttention(8, 4, causal=True, rotary=rotary, num_kv_heads=2)
    totals = [sum(lengths) for lengths in zip(*steps, strict=True)]
    rows = [torch.randn(total, 8) for total in totals]
    expected = [by_definition(attention, row, row, causal=True) for row in rows]
    cache, held = Cache(1, 3, capacity=8), [0, 0, 0]
    for lengths in steps:
        spans = [slice(start, start + length) for start, length in zip(held, lengths, strict=True)]
        sequences = cache.next(lengths)
        answer = attention(torch.cat([row[span] for row, span in zip(rows, spans, strict=True)]), sequences, cache)
        wanted = torch.cat([row[span] for row, span in zip(expected, spans, strict=True)])
        torch.testing.assert_close(answer, wanted, atol=1e-12, rtol=1e-12)
        cache.advance()
        held = [start + length for start, length in zip(held, lengths, strict=True)]


def test_reordered_rows_continue_their_parents() -> None:
    """Three sentences of different lengths: one row each, then three that change parents twice."""
    attention = SelfAttention(8, 4, causal=True, num_kv_heads=2)
    cache = Cache(1, 3, capacity=3 + 3 * 3)
    texts = [list(torch.randn(length, 8)) for length in (1, 3, 2)]
    attention(torch.cat([torch.stack(text) for text in texts]), cache.next([1, 3, 2]), cache)
    cache.advance()
    rows = [[text] for text in texts]
    for parents in ([[0, 0, 0]] * 3, [[2, 0, 0], [1, 1, 1], [0, 1, 2]], [[1, 0, 2], [2, 0, 0], [2, 1, 1]]):
        new = torch.randn(3, 3, 8)
        cache.reorder(torch.tensor(parents))
        answer = attention(new.flatten(0, 1), cache.next([1] * 9), cache).view(3, 3, 8)
        cache.advance()
        rows = [[rows[s][k] + [new[s, i]] for i, k in enumerate(chosen)] for s, chosen in enumerate(parents)]
        for s, i in product(range(3), range(3)):
            whole = torch.stack(rows[s][i])
            wanted = by_definition(attention, whole, whole, causal=True)[-1]
            torch.testing.assert_close(answer[s, i], wanted, atol=1e-12, rtol=1e-12)
        if parents[0] == [2, 0, 0]:
            assert cache.held.tolist() == [3, 5, 4]


def test_sentences_leave_the_cache() -> None:
    attention = SelfAttention(8, 2, causal=True)
    texts = torch.randn(4, 3, 8)
    cache = Cache(1, 4, capacity=3)
    for at in range(2):
        attention(texts[:, at], cache.next([1] * 4), cache)
        cache.advance()
    cache.keep(np.array([3, 1]))
    left = texts[[3, 1]]
    answer = attention(left[:, 2], cache.next([1, 1]), cache)
    expected = torch.stack([by_definition(attention, text, text, causal=True)[2] for text in left])
    torch.testing.assert_close(answer, expected, atol=1e-12, rtol=1e-12)


def test_several_rows_read_one_sentence_without_copies_of_it() -> None:
    attention = CrossAttention(8, 2)
    memory, memory_sequences = torch.randn(sum(MEMORY_LENGTHS), 8), Sequences(MEMORY_LENGTHS)
    beams = torch.randn(3, 2, 8)
    cache = Cache(1, 6, capacity=4)
    answer = attention(beams.flatten(0, 1), cache.next([1] * 6), memory, memory_sequences, cache)
    held = cache.memory(0)
    assert held is not None
    assert held.keys.shape[0] == 3
    for row, source in enumerate(memory.split(MEMORY_LENGTHS)):
        for beam in range(2):
            expected = by_definition(attention, beams[row, beam : beam + 1], source, causal=False)
            torch.testing.assert_close(answer[2 * row + beam], expected[0], atol=1e-12, rtol=1e-12)
    cache.advance()
    again = attention(
        beams.flatten(0, 1), cache.next([1] * 6), torch.full_like(memory, torch.nan), memory_sequences, cache
    )
    torch.testing.assert_close(again, answer)


def test_a_full_cache_says_so() -> None:
    cache = Cache(1, 2, capacity=3)
    with pytest.raises(UserError, match="holds 3 tokens per sentence, but 4 are needed"):
        cache.next([4, 1])
    with pytest.raises(UserError, match="2 rows, but tokens came for 3"):
        cache.next([1, 1, 1])
