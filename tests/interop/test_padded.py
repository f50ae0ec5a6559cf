"""Padded batches: packing by a mask, positions and the causal mask of a decoding step."""

from __future__ import annotations

import torch

from lamina.interop.padded import PaddedSequences, pack_real, real_slots, unpack_real

MASK = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]).bool()


def test_packing_and_back() -> None:
    values = torch.arange(8.0).view(2, 4, 1)
    packed, lengths = pack_real(values, MASK)
    assert packed.flatten().tolist() == [2, 3, 4, 5, 6]
    assert list(lengths) == [2, 3]
    assert torch.equal(unpack_real(packed, MASK), values * MASK[..., None])
    assert real_slots(values, None).all()


def test_positions_count_real_tokens() -> None:
    whole = PaddedSequences(MASK, 4)
    assert whole.positions.tolist() == [0, 0, 0, 1, 0, 1, 2, 2]
    step = PaddedSequences(MASK, 1)
    assert step.positions.tolist() == [1, 2]
    assert step.longest == 4
    assert torch.equal(whole.from_grid(whole.to_grid(torch.arange(8))), torch.arange(8))


def test_the_causal_mask_hides_padding_but_leaves_no_row_empty() -> None:
    mask = PaddedSequences(MASK, 4).causal_mask()[:, 0].long()
    assert mask[0].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert PaddedSequences(MASK, 1).causal_mask()[:, 0].long().tolist() == [[[0, 0, 1, 1]], [[1, 1, 1, 1]]]
