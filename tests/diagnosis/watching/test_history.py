"""The diagnosis of observations."""

from __future__ import annotations

from lamina.diagnosis.results import ModelFacts
from lamina.diagnosis.watching.history import diagnose_history
from support.observations import observation


def test_a_diagnosis_has_the_last_step_and_the_facts_of_the_model() -> None:
    facts = ModelFacts(layers={"h": 2})
    found = diagnose_history([observation(5), observation(10)], name="mine", model="GPT", facts=facts)
    assert (found.name, found.stage.step, found.repeats, found.facts) == ("mine", 10, 2, facts)
    assert found.spread_over == "steps"


def test_without_observations_nothing_is_fine() -> None:
    found = diagnose_history([], name="mine", model="GPT")
    assert {each.severity for each in found.findings} == {"not measured"}
