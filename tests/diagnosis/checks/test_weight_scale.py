"""The check `weight-scale`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("scale", "severity", "word"), [(1.0, "fine", ""), (9.0, "warning", "large"), (1e-3, "warning", "small")]
)
def test_matrices_outside_the_range_of_initialisations(scale: float, severity: str, word: str) -> None:
    facts = [fact("scale", 1.0, stack="s", layer=1, module="a"), fact("scale", scale, stack="s", layer=2, module="b")]
    (found,) = findings("weight-scale", [measurement("weight-scale", facts=facts)])
    assert found.severity == severity
    if word:
        assert found.location.module == "b"
        assert f"too {word}" in found.sentence
