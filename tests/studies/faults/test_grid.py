"""What of a finding counts in the fault grid."""

from __future__ import annotations

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Finding
from lamina.studies.faults.grid import judge, worst_values
from lamina.studies.faults.injections import FAULTS
from lamina.studies.faults.models import plain_trial


def test_a_finding_of_another_check_or_module_does_not_count() -> None:
    fault = next(each for each in FAULTS if each.name == "dead units (bias −10)")
    trial = plain_trial()
    wrong = Finding(check="collapse", severity="warning", sentence="layers.2.inner")
    elsewhere = Finding(check="dead", severity="failure", sentence="", location=Location(module="layers.4.inner"))
    fine = Finding(check="dead", severity="fine", sentence="layers.2.inner")
    assert judge(fault, "plain torch", trial, [wrong, fine], "start").named_by == ""
    found = judge(fault, "plain torch", trial, [wrong, elsewhere], "start", 4.0, True)
    assert (found.named_by, found.module, found.others) == ("dead", False, ("collapse",))
    assert (found.loss, found.spoilt, found.checks) == (4.0, True, ("dead",))


def test_the_worst_value_of_every_check() -> None:
    findings = [Finding(check="dead", severity="failure", sentence="", value=0.9)]
    findings += [Finding(check="dead", severity="fine", sentence="", value=0.1)]
    findings += [Finding(check="collapse", severity="not measured", sentence="")]
    assert worst_values(findings) == {"dead": 0.9}
