"""The check `weight-tying`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("declared", "tied", "equal", "severity"),
    [(1, 1, 1, "fine"), (0, 0, 0, "fine"), (1, 0, 0, "warning"), (0, 0, 1, "warning")],
)
def test_tied_as_declared(declared: float, tied: float, equal: float, severity: str) -> None:
    facts = [
        fact(name, value, module="head") for name, value in (("declared", declared), ("tied", tied), ("equal", equal))
    ]
    (found,) = findings("weight-tying", [measurement("weight-tying", facts=facts)])
    assert (found.severity, found.location.module) == (severity, "head")
