from __future__ import annotations

import math

import pytest
import torch

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.gradient_along_stream import GradientAlongStream
from support.recorded import by_hand, fact, line, recorded, some_loss, take, tensor_record
from support.small_models import small_stack


def test_norms_are_relative_to_the_largest() -> None:
    states = [tensor_record([[1.0]], 9.0), tensor_record([[1.0]], 1.0), tensor_record([[1.0]], 4.0)]
    found = take(GradientAlongStream, by_hand(states, kinds=["self-attention", "feed-forward"], per_layer=2))
    assert line(found, stack="stack") == (0.25, 1.0)  # x₀ is no sub-layer's
    assert {each.name: each.value for each in found.facts} == {"layers": 1, "below/above": 0.25}
    assert fact(found, "below/above", stack="stack", sublayer_kind="feed-forward") == 0.25
    concluded = GradientAlongStream().conclude(found)
    assert fact(concluded, "slope", stack="stack") == pytest.approx(math.log(4))
    assert fact(concluded, "first/last", stack="stack") == 0.25
    with pytest.raises(NotMeasurable, match="no gradient"):
        take(GradientAlongStream, by_hand([tensor_record([[1.0]]), tensor_record([[1.0]])]))


def test_every_stream_has_a_line_of_its_own() -> None:
    x = torch.randn(9, 6)
    found = take(GradientAlongStream, recorded(small_stack("resi-dual", 2), lambda model: some_loss(model(x))))
    assert [each.location.stream for each in found.measured] == [None, "dual"]


def test_the_prediction_of_post_ln_ends_at_the_last_value() -> None:
    x = torch.randn(9, 6)
    found = take(GradientAlongStream, recorded(small_stack("post-ln", 3), lambda model: some_loss(model(x))))
    predicted = line(found, role="predicted", quantity="norms alone", stack="stack")
    assert predicted[-1] == line(found, stack="stack")[-1]
    assert predicted[1] == pytest.approx(predicted[-1] * 2 / 3)  # two layers below the last
