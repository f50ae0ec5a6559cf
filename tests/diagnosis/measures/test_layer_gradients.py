from __future__ import annotations

import math

import pytest
import torch

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.layer_gradients import (
    ExpectedGradient,
    norms_by_layer,
    norms_over_kinds,
    weakest_layer,
)
from support.recorded import gradients


def test_batches_can_be_left_out_of_the_expected_gradient() -> None:
    expected = ExpectedGradient(parts=2)
    for value in (1.0, 2.0, 6.0):  # the first part has the first and the third
        expected.add(gradients(encoder_0_query=torch.tensor([[value]])))
    (name,) = expected.mean()
    assert [expected.mean(without)[name].item() for without in (None, 0, 1)] == [3.0, 2.0, 3.5]
    expected.add(gradients(encoder_0_key=torch.tensor([[4.0]])))
    assert [each.item() for each in expected.mean().values()] == [2.25, 1.0], "a missing gradient is zero"
    with pytest.raises(NotMeasurable, match="no gradient reached a weight matrix"):
        ExpectedGradient().mean()


def test_one_sum_is_kept_for_each_part() -> None:
    expected = ExpectedGradient(parts=2)
    for _ in range(6):
        expected.add(gradients(encoder_0_query=torch.ones(1, 1), encoder_1_query=torch.ones(1, 1)))
    assert [len(each) for each in expected._sums] == [2, 2]


def test_matrices_of_one_kind_in_a_layer_count_as_one() -> None:
    names = list(gradients(decoder_0_key=torch.tensor(0.0)))
    other = type(names[0])("another path", "decoder", 0, "key")
    found = norms_by_layer({names[0]: torch.tensor([[3.0]]), other: torch.tensor([[4.0]])})
    assert found == {("decoder", "key"): {1: 5.0}}
    with pytest.raises(NotMeasurable, match="no weight matrix belongs to a layer"):
        norms_by_layer({})


def test_layers_are_compared_in_the_kinds_that_the_last_layer_has() -> None:
    norms = {("a", "inner"): {1: 3.0, 2: 6.0}, ("a", "outer"): {1: 4.0, 2: 8.0}, ("a", "gate"): {1: 100.0}}
    assert norms_over_kinds(norms) == {"a": {1: 5.0, 2: 10.0}}
    assert norms_over_kinds({("a", "inner"): {1: 1.0, 2: 1.0, 3: 1.0}, ("a", "outer"): {2: 0.0, 3: 0.0}}) == {
        "a": {2: 1.0, 3: 1.0}
    }, "a layer that lacks a kind is left out"


def test_the_weakest_layer() -> None:
    assert weakest_layer({1: 0.5, 2: 0.25, 3: 1.0}) == (2, 3, 0.25)
    assert math.isnan(weakest_layer({1: 0.0, 2: 0.0}).share)
