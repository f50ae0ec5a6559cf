"""The check `dropout`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(("p", "severity"), [(0.1, "fine"), (0.9, "warning")])
def test_the_module_that_drops_most_is_named(p: float, severity: str) -> None:
    facts = [fact("p", 0.05, module="a"), fact("p", p, module="b")]
    (found,) = findings("dropout", [measurement("dropout-rates", facts=facts)])
    assert (found.severity, found.location.module, found.value) == (severity, "b", p)
