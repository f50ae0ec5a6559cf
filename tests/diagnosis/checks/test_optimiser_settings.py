"""The check `optimiser-settings`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("betas", "severity", "words"),
    [
        ((0.9, 0.999), "fine", "usual range"),
        ((0.9, 0.1), "warning", "β₂ = 0.1 is too small"),
        ((0.9, 0.99999), "warning", "β₂ = 0.99999 is too large"),
        ((0.999, 0.999), "warning", "β₁ = 0.999 is too large"),
    ],
)
def test_averages_outside_the_usual_range(betas: tuple[float, float], severity: str, words: str) -> None:
    facts = [fact("beta1", betas[0], quantity="1"), fact("beta2", betas[1], quantity="1")]
    (found,) = findings("optimiser-settings", [measurement("optimiser-settings", facts=facts)])
    assert found.severity == severity
    assert words in found.sentence
