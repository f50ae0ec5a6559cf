"""The numbers of a run by quantity and labels."""

from __future__ import annotations

from lamina.studies.result_table import ResultRow
from lamina.studies.shared_runs.numbers import Measured, RunNumbers
from support.made_runs import made_numbers


def test_scores_are_named_by_split_and_labelled_by_set() -> None:
    rows = (ResultRow(quantity="cosine", value=0.5, labels={"layer": 1}),)
    numbers = made_numbers("a", measured={"b2t-fig5": Measured(version=1, rows=rows)})
    assert isinstance(numbers, RunNumbers)
    found = numbers.at_the_end("b2t-fig5")
    assert found["bleu", ()] == 12.0
    assert found["test bleu", (("set", 2010),)] == 11.0
    assert found["test bleu", (("set", "clean"),)] == 10.0
    assert found["best validation loss", ()] == 5.25
    assert found["cosine", (("layer", 1),)] == 0.5
    assert ("cosine", (("layer", 1),)) not in numbers.at_the_end("b2t-fig1")
    assert not [quantity for quantity, _ in found if quantity == "nll"]


def test_a_failed_run_has_losses_by_step_only() -> None:
    failed = made_numbers("a", state="failed")
    assert failed.at_the_end("b2t-fig5") == {}
    assert dict(failed.curves())["validation loss by step", (("step", 2),)] == 5.25
