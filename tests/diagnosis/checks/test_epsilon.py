"""The check `epsilon`."""

from __future__ import annotations

import pytest

from support.measurements import fact, findings, line, measurement


@pytest.mark.parametrize(("ratio", "severity"), [(1e-3, "fine"), (20.0, "warning")])
def test_the_layer_with_the_smallest_gradients_is_named(ratio: float, severity: str) -> None:
    measured = measurement("gradient-against-epsilon", line(1e-5, ratio, stack="stack"), facts=[fact("ε", 1e-3)])
    (found,) = findings("epsilon", [measured])
    assert (found.severity, found.value, found.location.layer) == (severity, ratio, 2)
