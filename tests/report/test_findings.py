"""Findings as they are shown: order, counts, and what was not checked."""

from __future__ import annotations

from lamina.diagnosis.checks import run_checks
from lamina.diagnosis.lacking import lacking
from lamina.diagnosis.measurement import NotMeasured, Stage
from lamina.diagnosis.results import Diagnosis, Finding, Severity
from lamina.report.findings import NamedDiagnosis, name_diagnoses, overview
from support.made_diagnoses import NEEDS_TRAINING, hostile, make


def finding(check: str, severity: Severity) -> Finding:
    return Finding(check=check, severity=severity, sentence=f"{check} is {severity}")


def diagnosed(*findings: Finding, not_measured: tuple[NotMeasured, ...] = ()) -> NamedDiagnosis:
    stage = Stage(name="start")
    return NamedDiagnosis("m", Diagnosis(name="m", model="", stage=stage, findings=findings, not_measured=not_measured))


def test_the_worst_come_first_and_what_was_not_checked_is_not_among_them() -> None:
    shown = diagnosed(
        finding("a", "fine"), finding("b", "not measured"), finding("c", "warning"), finding("d", "failure")
    )
    assert [each.severity for each in shown.findings] == ["failure", "warning", "fine"]
    assert [(each.names, each.reason) for each in shown.not_checked] == [("b", "b is not measured")]
    assert shown.counts == "1 failure, 1 warning, 1 fine, 1 not checked"


def test_a_diagnosis_without_findings_says_so() -> None:
    assert diagnosed().counts == "no findings"


def test_checks_whose_measures_are_missing_for_one_reason_are_named_together() -> None:
    shown = NamedDiagnosis("m", make("pre-ln"))
    assert [(each.names, each.reason) for each in shown.not_checked] == [
        ("unstable, vanished", NEEDS_TRAINING),
        ("learning rate", "the highest learning rate of training is not known"),
    ]


def test_of_a_watched_model_the_checks_that_need_other_evidence_are_named_together() -> None:
    findings = run_checks([], lacking({"history"}))
    stage = Stage(name="step", step=5)
    watched = Diagnosis(name="m", model="", stage=stage, spread_over="steps", findings=findings)
    names = [each.names for each in NamedDiagnosis("m", watched).not_checked]
    together = {"vanishing", "learning rate", "amplification", "collapse"}
    assert any(together <= set(each.split(", ")) for each in names)


def test_checks_are_named_together_by_the_evidence_they_lack_and_not_by_the_text_of_the_reason() -> None:
    not_measured = tuple(
        NotMeasured(key=key, reason=f"{key} was not watched", lacks=("training",))
        for key in ("watched-updates", "watched-weakest-layer")
    )
    found = [finding(check, "not measured") for check in ("unstable", "vanished")]
    (shown,) = diagnosed(*found, not_measured=not_measured).not_checked
    assert shown.names == "unstable, vanished"


def test_measures_are_named_together_by_the_evidence_they_lack_and_not_by_the_text_of_the_reason() -> None:
    shown = diagnosed(
        not_measured=(
            NotMeasured(key="one", reason="it needs training", lacks=("training",)),
            NotMeasured(key="two", reason="needs passes", lacks=("passes",)),
            NotMeasured(key="three", reason="in other words", lacks=("training",)),
            NotMeasured(key="four", reason="the model has no dual stream"),
        )
    )
    assert [(each.keys, each.reason) for each in shown.not_measured] == [
        (("one", "three"), "it needs training"),
        (("two",), "needs passes"),
        (("four",), "the model has no dual stream"),
    ]


def test_the_reason_of_a_check_with_other_evidence_is_its_sentence() -> None:
    missing = NotMeasured(key="gradient-along-stream", reason="unknown")
    (shown,) = diagnosed(finding("vanishing", "not measured"), not_measured=(missing,)).not_checked
    assert shown.reason == "vanishing is not measured"


def test_the_overview_has_the_worst_of_each_check_that_was_made_of_any_model() -> None:
    first = [finding("vanishing", "fine"), finding("vanishing", "failure"), finding("learning-rate", "fine")]
    second = [finding("vanishing", "not measured"), finding("unstable", "not measured")]
    table = overview({"first": first, "second": second})
    assert table is not None
    assert table.headings == ("", "vanishing", "learning rate")
    rows = [tuple(" ".join(cell.split()) for cell in row) for row in table.rows]
    assert rows == [("first", "✗ failure", "✓ fine"), ("second", "– not measured", "")]
    assert overview({"second": second}) is None


def test_texts_are_printable() -> None:
    (shown,) = name_diagnoses([hostile()])
    stack = shown.diagnosis.measurements[0].series[1].location.stack
    assert stack == "[31m_hidden"
