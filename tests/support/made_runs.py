"""Made-up numbers of runs, and made-up results of studies that train models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from lamina.studies.result_table import Label, ResultRow, ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.shared_runs.numbers import RunNumbers
from lamina.studies.study import Study

Labels = Mapping[str, Label]
Values = Mapping[str, float | None]
ValuesOf = Callable[[Labels], Values]
"""From the labels of a run to the values of its quantities; of a quantity by set or step, the key is `name@label=…`."""


def made_numbers(key: str, **changes: Any) -> RunNumbers:
    """The numbers of a run that finished."""
    made = RunNumbers(
        key=key,
        data="iwslt",
        values={"seed": 1},
        versions={"shared path": 1},
        state="finished",
        steps=2,
        training_loss=((1, 6.0), (2, 5.0)),
        validation_loss=((1, 5.5), (2, 5.25)),
        scores={"valid": {"nll": 5.25, "bleu": 12.0}, "test/2010": {"bleu": 11.0}, "test/clean": {"bleu": 10.0}},
        seconds=1.5,
        machine="x86_64, 2 cores",
        made=date(2026, 11, 18),
        torch="2.13.0",
        lamina="0.1.0",
    )
    return made.model_copy(update=changes)


def made_results(study: Study, values_of: ValuesOf) -> ResultTable:
    """The results of a study's runs at scale `tiny`, with a spread of a thousandth over seeds."""
    return ResultTable(row for run in study.runs("tiny") for row in _rows(run, values_of(run.labels)))


def _rows(run: StudyRun, values: Values) -> Iterator[ResultRow]:
    for seed in run.seeds:
        for key, value in values.items():
            quantity, _, place = key.partition("@")
            name, _, label = place.partition("=")
            more = {name: int(label) if label.isdigit() else label} if place else {}
            shown = None if value is None else value * (1 + 1e-3 * (seed - 2))
            yield ResultRow(quantity=quantity, value=shown, seed=seed, labels={**run.labels, **more})


def check_claim(study: Study, claim: str, paper: ValuesOf, breaking: ValuesOf) -> None:
    """A claim holds on results as in the paper, does not hold on others, and is undecided without results."""

    def outcome(table: ResultTable) -> str:
        return {each.claim.id: each.verdict.outcome for each in study.judge(table)}[claim]

    assert outcome(made_results(study, paper)) == "holds"
    assert outcome(made_results(study, breaking)) == "does not hold"
    assert outcome(ResultTable()) == "undecided"
