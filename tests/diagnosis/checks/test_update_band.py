"""The check `update-band`."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.diagnosis.results import Finding
from support.measurements import fact, findings, measurement

PLACE = {"stack": "stack", "layer": 1, "module": "h.0.fc"}


def judged(*facts: Any, rate: float = 1e-3, decoupled: bool = True, assumed: bool = False) -> list[Finding]:
    common = [fact("learning rate", rate), fact("assumed", float(assumed)), fact("decoupled", float(decoupled))]
    return findings("update-band", [measurement("update-size", facts=[*facts, *common])])


@pytest.mark.parametrize(("ratio", "severity"), [(0.05, "fine"), (3.0, "failure"), (1e-7, "warning")])
def test_the_band_of_the_median_matrix(ratio: float, severity: str) -> None:
    (found,) = judged(fact("ratio", ratio, **PLACE))
    assert (found.severity, found.value) == (severity, ratio)


def test_matrices_that_are_left_out_are_named() -> None:
    (found,) = judged(fact("ratio", 0.0, **PLACE), fact("not updated", 1.0, **PLACE))
    assert (found.severity, found.location.module) == ("failure", "h.0.fc")
    assert "would not be updated" in found.sentence


@pytest.mark.parametrize(
    ("decay", "decoupled", "severity"),
    [(1e-4, True, "fine"), (0.1, True, "failure"), (0.1, False, "fine"), (9.0, False, "failure")],
)
def test_weight_decay_that_outweighs_the_loss(decay: float, decoupled: bool, severity: str) -> None:
    (found,) = judged(fact("ratio", 0.05, **PLACE), fact("decay", decay, **PLACE), decoupled=decoupled)
    assert found.severity == severity


def test_without_a_learning_rate_nothing_is_judged() -> None:
    assert [each.severity for each in judged(fact("ratio", 3.0, **PLACE), assumed=True)] == ["not measured"]
