"""The measure `optimiser-settings`."""

from __future__ import annotations

from lamina.diagnosis.measures.optimiser_settings import NAMES, OptimiserSettings
from support.optimised import evidence
from support.recorded import fact


def test_settings_of_every_group() -> None:
    found = OptimiserSettings().take(evidence("adam"))
    assert [each.value for each in found.find_facts(NAMES["lr"])] == [0.01, 0.0]
    assert fact(found, NAMES["beta2"], quantity="1") == 0.999
