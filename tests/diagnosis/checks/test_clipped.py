"""The check `clipped`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("norm", "variation", "steps", "severity"),
    [
        (1e-4, 0.001, 6, "warning"),
        (1.0, 0.001, 6, "fine"),
        (1e-4, 0.3, 6, "fine"),
        (1e-4, 0.001, 2, "not measured"),
    ],
)
def test_a_norm_that_is_tiny_and_always_the_same(norm: float, variation: float, steps: float, severity: str) -> None:
    facts = [fact("norm after clipping", norm), fact("variation", variation), fact("watched steps", steps)]
    (found,) = findings("clipped", [measurement("watched-gradient-norm", facts=facts)])
    assert found.severity == severity
