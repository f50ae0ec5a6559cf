"""Blocks: every token scored once, with the context it should have, next to the right input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.batches import Batches
from lamina.data.blocks import Blocks, windows
from lamina.data.examples import MemorySplit, example_sizes
from lamina.data.order import BatchPlan, OrderOptions
from lamina.errors import UserError

END = 0
documents_of_tokens = st.lists(st.lists(st.integers(1, 99), max_size=12), min_size=1, max_size=8)


def blocks_of(documents: list[list[int]], **settings: int | bool) -> Blocks:
    return Blocks(MemorySplit({"text": documents}), boundary=END, **settings)  # type: ignore[arg-type]


@given(st.integers(0, 80), st.integers(1, 12), st.data())
def test_windows_score_every_token_exactly_once(total: int, length: int, data: st.DataObject) -> None:
    context = data.draw(st.integers(0, length - 1))
    start, fresh, stop = windows(total, length, context)
    scored = [token for begin, end in zip(fresh, stop, strict=True) for token in range(begin, end)]
    assert scored == list(range(total))
    assert (stop - start <= length).all()
    assert (start <= fresh).all()
    assert (fresh[1:] - start[1:] >= context).all()


@given(documents_of_tokens, st.integers(1, 9), st.booleans(), st.data())
def test_scored_targets_are_the_text_and_inputs_come_just_before_them(
    documents: list[list[int]], length: int, across: bool, data: st.DataObject
) -> None:
    context = data.draw(st.integers(0, length - 1))
    blocks = blocks_of(documents, length=length, context=context, across_documents=across)
    stream = [token for document in documents for token in (*document, END)]
    seen = []
    for index in range(len(blocks)):
        source, target, scored = (blocks.tokens(field, index) for field in blocks.fields)
        assert len(source) == len(target) == len(scored) == blocks.lengths("input")[index] <= length
        assert source[1:].tolist() == target[:-1].tolist()
        first = len(seen) - int((scored == 0).sum())
        assert source.tolist() == [END, *stream][first : first + len(target)]
        seen += target[scored == 1].tolist()
    assert seen == stream


def test_documents_apart_never_share_a_block() -> None:
    blocks = blocks_of([[1, 2, 3], [4, 5]], length=10, across_documents=False)
    assert [blocks.tokens("target", index).tolist() for index in range(len(blocks))] == [[1, 2, 3, END], [4, 5, END]]
    assert blocks.tokens("input", 1).tolist() == [END, 4, 5]


def test_a_window_with_context_shows_old_tokens_and_scores_new_ones() -> None:
    blocks = blocks_of([[1, 2, 3, 4, 5, 6, 7]], length=4, context=2)
    assert [blocks.tokens("target", i).tolist() for i in range(3)] == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, END]]
    assert [blocks.tokens("scored", i).tolist() for i in range(3)] == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_blocks_are_batched_like_any_examples() -> None:
    blocks = blocks_of([list(range(1, 60)), list(range(60, 100))], length=8)
    plan = BatchPlan(example_sizes(blocks, ("target",)), OrderOptions(max_tokens=24))
    batches = list(Batches(blocks, plan).epoch(0))
    assert sorted(token for batch in batches for token in batch["target"].ids) == sorted([END, *range(1, 100), END])
    for batch in batches:
        assert len(batch["target"].ids) <= 24
        assert np.array_equal(batch["input"].lengths, batch["scored"].lengths)


def test_impossible_blocks_are_refused() -> None:
    with pytest.raises(UserError, match="shorter than the block of 4"):
        windows(10, 4, 4)
    with pytest.raises(UserError, match="no documents"):
        blocks_of([], length=4)
    with pytest.raises(UserError, match="did you mean 'target'"):
        blocks_of([[1]], length=4).lengths("targets")
