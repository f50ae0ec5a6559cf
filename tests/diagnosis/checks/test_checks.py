"""All checks together: order, spread, missing evidence, failing checks, and thresholds that are explained."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lamina import residual
from lamina.diagnosis import checks
from lamina.diagnosis.checks import CHECKS, all_checks, expects_failure, run_checks
from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.checks.vanishing import Vanishing
from lamina.diagnosis.measurement import NotMeasured
from lamina.diagnosis.measures import MEASURES
from lamina.diagnosis.results import Finding
from support.measurements import fact, line, measured, measurement


def test_every_check_is_complete() -> None:
    folder = Path(checks.__file__).parent
    tests = Path(__file__).parent
    for key, check in CHECKS.members.items():
        name = key.replace("-", "_")
        assert (folder / f"{name}.py").exists()
        assert (tests / f"test_{name}.py").exists(), f"the check {key} has no test of its own"
        assert check.reads, key
        assert set(check.reads) <= set(MEASURES), key
        for threshold, field in check.Thresholds.model_fields.items():
            assert field.description, f"{key}.{threshold} is not explained"
    positions = [each.position for each in all_checks()]
    assert len(set(positions)) == len(positions), "two checks at one position"


def test_the_worst_comes_first() -> None:
    found = run_checks(measured("post-ln", 18), schemes=["post-ln"])
    severities = [each.severity for each in found]
    order = ["failure", "warning", "fine", "not measured"]
    assert severities == sorted(severities, key=order.index)
    assert severities[0] == "failure"


@pytest.mark.parametrize("scheme", ["post-ln", "pre-ln", "b2t", "resi-dual", "admin", "deep-norm"])
def test_shallow_models_are_fine(scheme: str) -> None:
    assert [each for each in run_checks(measured(scheme, 2), schemes=[scheme]) if each.severity == "failure"] == []


@pytest.mark.parametrize("scheme", ["re-zero", "re-zero-post-ln", "fixup"])
def test_branches_that_start_at_zero_are_no_failure(scheme: str) -> None:
    assert all(found.severity != "failure" for found in run_checks(measured(scheme, 6), schemes=[scheme]))


def test_without_evidence_every_check_is_not_measured() -> None:
    found = run_checks([], [NotMeasured(key="gradient-by-layer", reason="all parameters are frozen")])
    assert [each.check for each in found] == [each.key for each in all_checks()]
    assert {each.severity for each in found} == {"not measured"}
    sentences = {each.check: each.sentence for each in found}
    assert sentences["vanishing"] == "gradient-by-layer was not measured: all parameters are frozen"
    assert sentences["collapse"] == "hidden-change was not measured"


def test_a_measurement_in_which_nothing_can_be_judged_is_not_fine() -> None:
    (found,) = [each for each in run_checks([measurement("hidden-change")]) if each.check == "collapse"]
    assert (found.severity, found.sentence) == ("not measured", "hidden-change holds nothing that could be judged")


def test_a_check_that_raises_is_reported_and_the_others_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Check, evidence: CheckEvidence, thresholds: Any) -> Iterable[Finding]:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Vanishing, "judge", broken)
    streams = measurement("stream-norms", line(1.0, first=0, stack="stack", quantity="stream"))
    gradients = measurement("gradient-by-layer", line(1.0, 1.0, stack="stack", matrix="outer"))
    found = {each.check: each for each in run_checks([gradients, streams])}
    assert found["overflow"].severity == "fine"
    assert found["vanishing"].severity == "not measured"
    assert found["vanishing"].sentence == "the check raised ZeroDivisionError: by nothing"


def test_the_spread_comes_from_the_samples() -> None:
    """Also where the weakest layer is another one in every sample, and whatever a sample lacks."""

    def gradients(first: float, second: float) -> Any:
        return measurement(
            "gradient-by-layer",
            line(1.0, 1.0, stack="encoder", matrix="outer"),
            line(first, second, 1.0, stack="decoder", matrix="outer"),
        )

    samples = [[gradients(0.2, 1.0)], [gradients(1.0, 0.4)], [measurement("gradient-by-layer")]]
    found = run_checks([gradients(0.3, 0.5)], samples=samples, scale=3.0)
    spreads = {each.location.stack: each.spread for each in found if each.check == "vanishing"}
    assert spreads["decoder"] == pytest.approx(3.0 * 0.2 / 2**0.5)
    assert spreads["encoder"] == 0.0
    (alone,) = [each for each in run_checks([gradients(0.3, 0.5)], samples=samples[:1]) if each.value == 0.3]
    assert alone.spread is None, "one sample has no spread"


@pytest.mark.parametrize(
    ("check", "severity", "expected"),
    [
        ("vanishing", "failure", True),
        ("learning-rate", "failure", True),
        ("amplification", "failure", True),
        ("vanishing", "warning", False),
        ("collapse", "failure", False),
        ("overflow", "failure", False),
        ("of-a-package-that-is-gone", "failure", False),
    ],
)
def test_which_findings_expect_a_failure(check: str, severity: Any, expected: bool) -> None:
    assert expects_failure([Finding(check=check, severity=severity, sentence="")]) == expected


def test_remedies_are_the_schemes_own_and_not_inherited() -> None:
    faults = ("vanishing", "learning-rate", "amplification", "collapse")
    suggested = {fault: {each.name for each in residual.schemes() if fault in each.avoids} for fault in faults}
    assert suggested["vanishing"] == {"pre-ln", "b2t", "resi-dual"}
    assert suggested["amplification"] == {"pre-ln", "admin", "deep-norm"}
    assert suggested["collapse"] == {"b2t", "resi-dual"}
    assert suggested["learning-rate"] == {"pre-ln", "resi-dual"}


def test_every_finding_has_its_number_its_threshold_and_its_place() -> None:
    moved = measurement(
        "gradient-when-moved", line(0.8, 0.01, stack="decoder"), facts=[fact("unmoved", 0.9, stack="decoder")]
    )
    for found in run_checks([*measured("post-ln", 18), moved], schemes=["post-ln"], learning_rate=0.1):
        if found.severity != "not measured":
            assert found.value is not None
            assert found.threshold is not None
            assert found.location.stack is not None or found.check in ("initial-loss", "targets"), "of the whole model"
            assert bool(found.remedies) == (found.severity != "fine")
