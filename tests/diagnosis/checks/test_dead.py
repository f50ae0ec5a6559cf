"""The check `dead`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(("share", "severity"), [(0.1, "fine"), (0.5, "warning"), (1.0, "failure")])
def test_the_layer_with_the_most_dead_units_is_named(share: float, severity: str) -> None:
    facts = [
        fact("dead", 0.0, stack="s", layer=1, module="h.0.fc"),
        fact("dead", share, stack="s", layer=2, module="h.1.fc"),
    ]
    (found,) = findings("dead", [measurement("dead-units", facts=facts)])
    assert (found.severity, found.location.module, found.value) == (severity, "h.1.fc", share)
