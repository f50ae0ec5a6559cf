"""The table of the fault grid, with made-up outcomes."""

from __future__ import annotations

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Finding
from lamina.studies.faults.grid import FaultOutcome, judge, steps_of, summary, table
from lamina.studies.faults.injections import FAULTS
from lamina.studies.faults.models import plain_trial

OUTCOMES = [
    FaultOutcome("none", "plain torch", "", "start", None, (), 4.0),
    FaultOutcome("frozen layer", "plain torch", "untrained", "start", True, (), 4.5),
    FaultOutcome("frozen layer", "GPT-2", "untrained", "start", False, (), 4.5),
    FaultOutcome("NaN", "plain torch", "", "", None, ("collapse",), float("nan")),
]


def test_rates_and_rows() -> None:
    assert summary(OUTCOMES).startswith("2 of 3 faults named with their cause (67%)")
    assert "1 of the 2" in summary(OUTCOMES)
    lines = table(OUTCOMES).splitlines()
    assert lines[2] == "| none | nothing |  | 4.00 |  |  |  |"
    assert lines[3] == "| frozen layer | untrained | yes | 4.50 | untrained | no | 4.50 |"
    assert "not named" in lines[4]
    assert "diverged" in lines[4]


def test_a_finding_of_another_check_or_module_does_not_count() -> None:
    fault = next(each for each in FAULTS if each.name == "dead units (bias −10)")
    trial = plain_trial()
    wrong = Finding(check="collapse", severity="warning", sentence="layers.2.inner")
    elsewhere = Finding(check="dead", severity="failure", sentence="", location=Location(module="layers.4.inner"))
    assert judge(fault, "plain torch", trial, [wrong], "start", 1.0).named_by == ""
    found = judge(fault, "plain torch", trial, [wrong, elsewhere], "start", 1.0)
    assert (found.named_by, found.module, found.others) == ("dead", False, ("collapse",))


def test_training_lowers_the_loss_and_restores_the_learning_rate() -> None:
    trial = plain_trial()
    optimiser = trial.make_optimiser(trial.model)
    losses = steps_of(trial, optimiser, 6)
    assert losses[-1] < losses[0]
    assert optimiser.param_groups[0]["lr"] == 1e-3
