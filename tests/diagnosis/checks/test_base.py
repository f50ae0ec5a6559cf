"""What all checks share: their evidence, their keys, how values are graded, and remedies for what is not fine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import pytest

from lamina import residual
from lamina.diagnosis.checks.base import Check, CheckEvidence, grade
from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Finding, SchemeTrait
from lamina.residual.base import Fault
from support.measurements import line, measurement


class SomeCheck(Check):
    """Says nothing."""

    reads = ("stream-norms",)

    def judge(self, evidence: CheckEvidence, thresholds: Any) -> Iterable[Finding]:
        return ()


@pytest.mark.parametrize(("value", "severity"), [(0.9, "fine"), (1.0, "warning"), (1.9, "warning"), (2.0, "failure")])
def test_a_threshold_belongs_to_the_worse_side(value: float, severity: str) -> None:
    assert grade(value, warning=1.0, failure=2.0) == severity


def test_evidence_has_measurements_by_their_keys() -> None:
    norms = measurement("stream-norms", line(1.0, 2.0, stack="encoder"))
    evidence = CheckEvidence([norms], ["post-ln"], learning_rate=1e-3)
    assert evidence.get("stream-norms") is norms
    assert evidence.get("gradient-by-layer") is None


def test_the_remedy_names_all_schemes_that_avoid_a_fault_but_those_in_use() -> None:
    able = [each.name for each in residual.schemes() if "vanishing" in each.avoids]
    assert len(able) > 1
    remedy = CheckEvidence([], [able[0]]).schemes_that_avoid("vanishing")
    assert remedy == SchemeTrait(avoids="vanishing", schemes=tuple(able[1:]))


@pytest.mark.parametrize("fault", get_args(Fault))
def test_the_placement_that_a_model_has_is_never_suggested(fault: Fault) -> None:
    avoiding = {each.name for each in residual.schemes() if fault in each.avoids}
    for placement in ("pre", "post"):
        named = CheckEvidence([], placements=[placement]).schemes_that_avoid(fault).schemes
        assert set(named) == avoiding - {f"{placement}-ln"}
    unknown = CheckEvidence([], placements=["pre", None]).schemes_that_avoid(fault).schemes
    assert set(unknown) == avoiding - {"pre-ln", "post-ln"}, "an unknown placement may be either"
    for scheme in residual.schemes():
        assert scheme.name not in CheckEvidence([], [scheme.name]).schemes_that_avoid(fault).schemes


def test_only_what_is_not_fine_has_remedies() -> None:
    check, remedy = SomeCheck(), SchemeTrait(avoids="collapse", schemes=("pre-ln",))
    failed = check.finding("failure", "It collapses.", location=Location(stack="encoder"), value=3, remedies=[remedy])
    assert (failed.check, failed.severity, failed.value) == ("test-base", "failure", 3)
    assert failed.remedies == (remedy,)
    assert failed.location == Location(stack="encoder")
    fine = check.finding("fine", "It does not.", remedies=[remedy])
    assert fine.remedies == ()
    assert fine.location == Location()
