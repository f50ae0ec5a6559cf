"""The check `step-size`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.results import Finding
from support.measurements import fact, findings, measurement


def judged(multiple: float, *, assumed: bool = False, warmup: int | None = None) -> Finding:
    values = {"critical multiple": multiple, "critical learning rate": multiple * 0.01, "learning rate": 0.01}
    facts = [fact(name, value) for name, value in values.items()] + [fact("assumed", float(assumed))]
    (found,) = findings("step-size", [measurement("critical-learning-rate", facts=facts)], warmup=warmup)
    return found


@pytest.mark.parametrize(
    ("multiple", "warmup", "severity"),
    [
        (100.0, None, "fine"),
        (2.0, None, "fine"),
        (1.0, None, "warning"),
        (0.5, None, "warning"),
        (0.1, None, "failure"),
        (0.5, 1000, "fine"),  # the warm-up reaches the critical learning rate after 500 steps
        (0.5, 100, "warning"),  # after 50
        (0.1, 500, "warning"),  # after 50
        (0.001, 1000, "failure"),  # after 1
    ],
)
def test_a_step_that_overshoots(multiple: float, warmup: int | None, severity: str) -> None:
    assert judged(multiple, warmup=warmup).severity == severity


def test_an_update_that_points_uphill() -> None:
    found = judged(0.0)
    assert found.severity == "failure"
    assert "uphill" in found.sentence


def test_without_a_learning_rate_the_critical_one_is_told() -> None:
    found = judged(10.0, assumed=True)
    assert (found.severity, found.value) == ("not measured", 0.1)
