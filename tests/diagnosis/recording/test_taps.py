"""Taps: norms of gradients, in-place changes, and the same elements in other views."""

from __future__ import annotations

import torch

from lamina.diagnosis.recording.own import recording
from lamina.diagnosis.recording.taps import Taps, key_of
from support.small_models import small_stack


def test_a_gradient_too_small_for_single_precision_squares_is_no_zero() -> None:
    stack = small_stack("pre-ln", num_layers=2)
    with recording(stack) as recorded:
        (stack(torch.randn(4, 6)).sum() * 1e-30).backward()
    norm = recorded.stacks[0].sublayers[0].after[0].gradient_norm
    assert norm is not None
    assert 0 < norm < 1e-25


def test_a_tensor_is_recorded_once_and_keeps_the_norm_of_its_gradient() -> None:
    x = torch.randn(3, requires_grad=True)
    taps = Taps()
    (recorded,) = taps.record_streams(x)
    assert taps.record(x) is recorded
    (2 * x).sum().backward()
    assert recorded.gradient_norm is None, "filled in at the end"
    assert taps.close() == []
    assert recorded.gradient_norm == 12**0.5


def test_tensors_that_were_overwritten_are_reported() -> None:
    x, taps = torch.randn(3), Taps()
    taps.record(x)
    x += 1
    assert taps.close() == ["1 recorded tensors were overwritten in place; their values are later ones"]


def test_views_of_the_same_elements_have_the_same_key() -> None:
    x = torch.randn(2, 3)
    assert key_of(x.view(6)) == key_of(x) == key_of(x.detach())
    assert key_of(x[1]) != key_of(x)
    assert key_of(x.clone()) != key_of(x)
