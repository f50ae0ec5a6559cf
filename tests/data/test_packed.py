"""Packed fields: prepending and appending tokens, joining, and the padding of attention scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.packed import PackedField, append, index_ranges, join, prepend, score_cells, to_tensors

sequences = st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=8)


def unpacked(field: PackedField) -> list[list[int]]:
    return [sequence.tolist() for sequence in field.sequences()]


@given(sequences)
def test_prepend_and_append_act_on_every_sequence_even_an_empty_one(given_sequences: list[list[int]]) -> None:
    field = PackedField.of(given_sequences)
    assert unpacked(field) == given_sequences
    assert unpacked(prepend(field, 99)) == [[99, *sequence] for sequence in given_sequences]
    assert unpacked(append(field, 99)) == [[*sequence, 99] for sequence in given_sequences]


@given(sequences)
def test_each_sequence_can_have_a_tag_of_its_own(given_sequences: list[list[int]]) -> None:
    field, tags = PackedField.of(given_sequences), np.arange(len(given_sequences)) + 100
    assert unpacked(prepend(field, tags)) == [[100 + i, *each] for i, each in enumerate(given_sequences)]
    assert unpacked(append(field, tags)) == [[*each, 100 + i] for i, each in enumerate(given_sequences)]


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 9), max_size=4)] * 2), max_size=6))
def test_join_puts_partners_together(pairs: list[tuple[list[int], list[int]]]) -> None:
    joined = join(PackedField.of(first for first, _ in pairs), PackedField.of(second for _, second in pairs))
    assert unpacked(joined) == [first + second for first, second in pairs]


@given(sequences)
def test_rows_and_positions_say_where_a_token_stands(given_sequences: list[list[int]]) -> None:
    field = PackedField.of(given_sequences)
    places = [(row, position) for row, each in enumerate(given_sequences) for position in range(len(each))]
    assert list(zip(field.rows.tolist(), field.positions.tolist(), strict=True)) == places


def test_stretches_follow_each_other() -> None:
    assert index_ranges(np.array([7, 2, 5]), np.array([2, 0, 3])).tolist() == [7, 8, 5, 6, 7]


def test_score_cells_count_the_grid_that_attention_computes() -> None:
    full, half = np.array([4, 4, 4]), np.array([4, 2])
    assert score_cells(full, full) == (48, 48)
    assert score_cells(half, half) == (32, 16 + 4)
    assert score_cells(half, np.array([1, 3])) == (2 * 4 * 3, 4 + 6)
    assert score_cells(np.array([], np.int64), np.array([], np.int64)) == (0, 0)


def test_tensors_have_the_ids_and_lengths() -> None:
    ids, lengths = to_tensors(PackedField.of([[1, 2], [3]]))
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.tolist() == [1, 2, 3]
    assert lengths.tolist() == [2, 1]


def test_a_field_that_cannot_be_written_to_becomes_a_tensor_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    frozen = PackedField.of([[1, 2]])
    frozen.ids.setflags(write=False)
    assert to_tensors(frozen)[0].tolist() == [1, 2]
    assert not recwarn.list
