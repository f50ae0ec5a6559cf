"""The check `epsilon`."""

from __future__ import annotations

import pytest

from lamina.report.labels import remedy_text
from support.measurements import fact, findings, line, measurement


@pytest.mark.parametrize(("ratio", "severity"), [(1e-3, "fine"), (20.0, "warning")])
def test_the_layer_with_the_smallest_gradients_is_named(ratio: float, severity: str) -> None:
    measured = measurement("gradient-against-epsilon", line(1e-5, ratio, stack="stack"), facts=[fact("ε", 1e-3)])
    (found,) = findings("epsilon", [measured])
    assert (found.severity, found.value, found.location.layer) == (severity, ratio, 2)
    if severity == "warning":
        line_of_code = str(remedy_text(found.remedies[0], own_model=False))
        assert line_of_code == "an ε of at most 5e-7: torch.optim.AdamW(model.parameters(), eps=5e-7)"
        assert str(remedy_text(found.remedies[0], own_model=True)) == "optimiser.eps < 5e-7"
