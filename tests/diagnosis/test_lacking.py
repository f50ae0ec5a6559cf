"""The measures that are not taken, with reasons."""

from __future__ import annotations

from lamina.diagnosis.lacking import REASONS, lacking, left_out_of_quick
from lamina.diagnosis.measures import all_measures


def test_a_measure_lacks_something_only_if_none_of_its_evidence_is_there() -> None:
    found = {each.key: each for each in lacking({"record", "gradients", "model"})}
    assert found["watched-loss"].lacks == ("training",)
    assert found["output-change"].lacks == ("depths",)
    assert found["coordinate-check-by-width"].reason == REASONS["widths"]
    assert "gradient-coverage" not in found, "a record is enough, though it can also be taken from a history"
    assert not lacking({"record", "gradients", "model", "optimiser", "factory", "widths", "history"})


def test_a_quick_diagnosis_leaves_out_what_takes_many_passes() -> None:
    slow = {each.key for each in left_out_of_quick()}
    assert "gradient-when-moved" in slow
    assert slow == {each.key for each in all_measures() if not each.quick}
    assert all(set(each.needs) & {"model", "factory", "widths"} for each in all_measures() if each.key in slow)
