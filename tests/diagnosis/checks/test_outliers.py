"""The check `outliers`."""

from __future__ import annotations

import pytest

from support.measurements import findings, line, measurement


@pytest.mark.parametrize(("ratio", "severity"), [(3.0, "fine"), (500.0, "warning"), (float("nan"), "not measured")])
def test_the_layer_with_the_largest_channel_is_named(ratio: float, severity: str) -> None:
    kurtosis, ratios = (line(ratio, ratio, stack="stack", quantity=each) for each in ("kurtosis", "largest/median"))
    (found,) = findings("outliers", [measurement("outlier-channels", kurtosis, ratios)])
    assert found.severity == severity
    assert found.location.layer == (None if severity == "not measured" else 1)
