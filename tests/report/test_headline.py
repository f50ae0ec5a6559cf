"""The head of a diagnosis: one verdict, the model, the health of its layers, and what a fix changed."""

from __future__ import annotations

from lamina.diagnosis.measurement import Location, Stage
from lamina.diagnosis.results import Diagnosis, Finding, ModelFacts, Severity
from lamina.report.headline import changes, headline, health_strips, model_facts
from support.measurements import line, measurement

FACTS = ModelFacts(layers={"h": 4}, placements={"h": "pre"}, width=64, parameters=1000, trained=900, batch=(4, 32))


def finding(check: str, severity: Severity, **location: object) -> Finding:
    return Finding(check=check, severity=severity, sentence=check, location=Location(**location))  # type: ignore[arg-type]


def diagnosis(*findings: Finding, **changed: object) -> Diagnosis:
    values = {"name": "mine", "model": "4 GPT", "stage": Stage(name="given"), "findings": findings, "facts": FACTS}
    return Diagnosis.model_validate(values | changed)


def test_the_worst_finding_is_the_headline() -> None:
    warning = finding("collapse", "warning", stack="h")
    failure = finding("vanishing", "failure", stack="h", layer=2)
    found = headline(diagnosis(warning, failure, finding("overflow", "fine")))
    assert (found.severity, found.text) == ("failure", "Training is likely to fail: vanishing in layer 2 of the h")
    two = headline(diagnosis(warning, finding("untrained", "warning", module="h.0.fc")))
    assert two.text == "This model may train badly: collapse in the h (and 1 other warning)"
    watched = headline(diagnosis(failure, spread_over="steps"))
    assert watched.text.startswith("Training is failing")


def test_fine_needs_evidence() -> None:
    assert headline(diagnosis(finding("overflow", "fine"))).text == "No fault found by 1 check"
    assert headline(diagnosis(finding("overflow", "not measured"))).severity == "not measured"
    strips = health_strips(diagnosis(finding("overflow", "not measured")))
    assert {cell.severity for cell in strips["h"]} == {"not measured"}


def test_what_the_model_is() -> None:
    rows = dict(model_facts(FACTS))
    assert rows["norms found"] == "norms before the sub-layers (pre-LN)"
    assert rows["parameters"] == "1,000, 100 of them frozen"
    assert rows["a batch"] == "4 × 32 positions"
    assert model_facts(None) == []


def test_one_cell_for_each_layer() -> None:
    coverage = measurement("gradient-coverage", line(1.0, 0.0, 0.0, 1.0, stack="h"))
    frozen = finding("untrained", "warning", stack="h", layer=2)
    vanished = finding("vanishing", "failure", stack="h", layer=1)
    cells = health_strips(diagnosis(frozen, vanished, measurements=(coverage,)))["h"]
    assert [cell.severity for cell in cells] == ["failure", "warning", "warning", "fine"]


def test_before_and_after() -> None:
    before = diagnosis(finding("a", "failure"), finding("b", "fine"), finding("c", "warning"), finding("d", "failure"))
    after = diagnosis(finding("a", "fine"), finding("b", "warning"), finding("c", "warning"), finding("d", "warning"))
    found = {check: meaning for check, _, _, meaning in changes(before, after)}
    assert found == {"a": "resolved", "b": "new", "c": "still there", "d": "better"}
    assert changes(before, diagnosis(finding("a", "not measured")))[0][3] == "not comparable"
