from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina import UserError
from lamina.model.sequences import Sequences, pack

some_lengths = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@given(some_lengths)
def test_grid_and_back_is_the_identity_and_padding_is_zero(lengths: list[int]) -> None:
    sequences = Sequences(lengths)
    x = torch.arange(1.0, sum(lengths) * 2 + 1).view(-1, 2)
    grid = sequences.to_grid(x)
    assert grid.shape == (len(lengths), max(lengths), 2)
    assert torch.equal(sequences.from_grid(grid), x)
    for row, length in enumerate(lengths):
        assert not grid[row, length:].any()
        assert (grid[row, :length] != 0).all()


@given(some_lengths)
def test_positions_rows_and_first_tokens(lengths: list[int]) -> None:
    sequences = Sequences(lengths, start=[10 * row for row in range(len(lengths))])
    expected = [(row, 10 * row + at) for row, length in enumerate(lengths) for at in range(length)]
    assert list(zip(sequences.rows.tolist(), sequences.positions.tolist(), strict=True)) == expected
    assert sequences.longest == max(position for _, position in expected) + 1
    assert (sequences.positions[sequences.first] % 10 == 0).all()


@given(some_lengths)
def test_padded_ids_pack_to_the_same_tokens(lengths: list[int]) -> None:
    padded = torch.zeros(len(lengths), max(lengths) + 2, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, :length] = torch.arange(1, length + 1) + 100 * row
    ids, sequences = pack(padded, None, padding_index=0)
    assert sequences.counts.tolist() == lengths
    assert torch.equal(ids, padded[padded != 0])
    assert torch.equal(sequences.like(padded, ids), padded)
    assert torch.equal(pack(padded, lengths, 0)[0], ids)
    assert torch.equal(pack(ids, lengths, 0)[0], ids)


@given(some_lengths, st.integers(1, 40))
def test_as_many_first_sequences_as_fit(lengths: list[int], budget: int) -> None:
    sequences = Sequences(lengths)
    count = sequences.num_fitting(budget)
    assert count == 1 or sum(lengths[:count]) <= budget
    assert count == len(lengths) or sum(lengths[: count + 1]) > budget
    tokens, chosen = sequences.first_of(torch.arange(sum(lengths)), count)
    assert len(tokens) == sum(lengths[:count])
    assert chosen.counts.tolist() == lengths[:count]


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (torch.ones(3, dtype=torch.long), None, "need `lengths`"),
        (torch.ones(3, dtype=torch.long), [2, 2], "add up to 4 tokens, but there are 3"),
        (torch.ones(3, dtype=torch.long), [3, 0], "sequence 1 is empty; drop"),
        (torch.tensor([[1, 2], [0, 0]]), None, "sequence 1 is empty"),
        (torch.tensor([[0, 2], [3, 0]]), None, "padding must be at the end"),
        (torch.ones(2, 2, dtype=torch.long), [2, 3], "do not fit"),
        (torch.ones(2, 2, dtype=torch.long), [2], "do not fit"),
        (torch.ones(1, 2, 2, dtype=torch.long), None, "1 .packed. or 2 .padded. dimensions, not 3"),
        (torch.ones(0, dtype=torch.long), [], "there is no sequence"),
    ],
)
def test_bad_ids_say_what_is_wrong(ids: torch.Tensor, lengths: list[int] | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pack(ids, lengths, padding_index=0)
