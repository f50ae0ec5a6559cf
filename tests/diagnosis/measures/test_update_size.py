"""The measure `update-size`."""

from __future__ import annotations

from math import acos, degrees

import pytest

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.gradient_against_epsilon import GradientAgainstEpsilon
from lamina.diagnosis.measures.update_size import NOT_UPDATED, RATIO, UpdateSize
from lamina.diagnosis.recording.passes import backward
from support.optimised import evidence
from support.recorded import fact, line


def test_ratio_and_angle_of_a_matrix_by_hand() -> None:
    given = evidence("sgd")
    weight = given.model.layers[2].outer.weight  # type: ignore[union-attr, index]
    found = UpdateSize().take(given)
    backward(given.model, given.passes[0])  # type: ignore[arg-type]
    change = -0.1 * weight.grad
    ratio = change.norm().item() / weight.norm().item()
    moved = weight.detach() + change
    one, other = weight.detach().double(), moved.double()
    cosine = (one * other).sum().item() / (one.norm().item() * other.norm().item())
    assert fact(found, RATIO, module="layers.2.outer") == pytest.approx(ratio, rel=1e-4)
    assert line(found, matrix="outer", quantity="ratio")[2] == pytest.approx(ratio, rel=1e-4)
    assert line(found, matrix="outer", quantity="angle")[2] == pytest.approx(degrees(acos(cosine)), rel=1e-3)
    assert [each.location.module for each in found.find_facts(NOT_UPDATED)] == ["layers.3.inner"]
    with pytest.raises(NotMeasurable, match="no ε"):
        GradientAgainstEpsilon().take(given)
