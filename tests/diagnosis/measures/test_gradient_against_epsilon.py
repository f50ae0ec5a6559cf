"""The measure `gradient-against-epsilon`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measures.gradient_against_epsilon import EPSILON, GradientAgainstEpsilon
from lamina.diagnosis.recording.passes import backward
from support.optimised import evidence
from support.recorded import fact, line


def test_epsilon_relative_to_the_gradients_by_a_plain_loop() -> None:
    given = evidence("adam")
    found = GradientAgainstEpsilon().take(given)
    backward(given.model, given.passes[0])  # type: ignore[arg-type]
    layer = given.model.layers[1]  # type: ignore[union-attr, index]
    sizes = [each.grad.square().mean().sqrt().item() for each in layer.parameters() if each.dim() == 2]
    values = sorted(1e-3 / each for each in sizes)
    middle = (values[2] + values[3]) / 2
    assert line(found, stack="stack")[1] == pytest.approx(middle, rel=1e-4)
    assert fact(found, EPSILON) == 1e-3
