"""Made-up numbers of runs, and made-up results of studies that train models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from lamina.data.synthetic import NEWS_YEARS
from lamina.studies.ledger import StudyResult, run_versions, stored
from lamina.studies.papers import STUDIES
from lamina.studies.result_table import Label, ResultRow, ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.shared_runs.numbers import RunNumbers
from lamina.studies.study import Study

Labels = Mapping[str, Label]
Values = Mapping[str, float | None]
ValuesOf = Callable[[Labels], Values]
"""From the labels of a run to the values of its quantities; of a quantity by set or step, the key is `name@set=…`."""


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
            named = [each.split("=") for each in place.split(",") if each]
            more = {name: int(label) if label.isdigit() else label for name, label in named}
            shown = None if value is None else value * (1 + 1e-3 * (seed - 2))
            yield ResultRow(quantity=quantity, value=shown, seed=seed, labels={**run.labels, **more})


def scored(score: float | None, loss: Sequence[float] | None = None, metrics: Sequence[str] = ("bleu",)) -> Values:
    """The quantities of a run with this score on all sets; None for one that failed.

    loss: its validation losses at equal distances; by default they fall to a value that falls with the score.
    """
    end = 5.0 if score is None else 8 - score / 10
    losses = loss or (end + 1, end + 0.5, end)
    found: dict[str, float | None] = {"trained": None if score is None else 1.0}
    for name, value in (("validation loss", losses[-1]), ("best validation loss", min(losses))):
        found[name] = None if score is None else value
    for metric in metrics:
        found[metric] = score
        found |= {f"test {metric}@set={year}": score for year in NEWS_YEARS}
    for number, value in enumerate(losses, start=1):
        found[f"validation loss by step@step={number * 400 // len(losses)}"] = value
        found[f"training loss by step@step={number * 400 // len(losses)}"] = value
    return found


def contradictions(table: ResultTable) -> Iterator[ResultTable]:
    """Results that contradict others: in the opposite order, of the opposite runs, equal, spread out, and so on."""
    numbers: dict[tuple[tuple[str, Label], ...], int] = {}

    def number(row: ResultRow) -> int:
        """The number of the run, in the order in which runs occur."""
        run = tuple((name, value) for name, value in row.labels.items() if name not in ("set", "step", "layer"))
        return numbers.setdefault(run, len(numbers))

    steps = [int(row.labels["step"]) for row in table if "step" in row.labels]

    def changed(change: Callable[[ResultRow], ResultRow]) -> ResultTable:
        return ResultTable(change(row) for row in table)

    def replaced(row: ResultRow, value: float | None) -> ResultRow:
        return row.model_copy(update={"value": value})

    yield changed(lambda row: row if row.value is None or row.quantity == "trained" else replaced(row, 99 - row.value))
    yield changed(lambda row: replaced(row, 1.0 if row.value is None else None) if row.quantity == "trained" else row)
    yield changed(lambda row: replaced(row, 50.0 if row.value is None else row.value))
    yield changed(lambda row: replaced(row, 50.0))
    yield changed(lambda row: replaced(row, None if number(row) % 2 else row.value))
    for sign in (1, -1):
        yield changed(lambda row: row if row.value is None else replaced(row, row.value * 1.5 ** (sign * number(row))))  # noqa: B023
    yield changed(
        lambda row: (
            row.model_copy(update={"labels": {**row.labels, "step": max(steps) + min(steps) - int(row.labels["step"])}})
            if "step" in row.labels
            else row
        )
    )


def check_claims(study: Study, paper: ValuesOf) -> None:
    """Every claim holds on results as in the paper, and one of the contradictions breaks it."""

    def outcomes(table: ResultTable) -> dict[str, str]:
        return {each.claim.id: each.verdict.outcome for each in study.judge(table)}

    table = made_results(study, paper)
    made = {each.claim.id: each.verdict for each in study.judge(table)}
    assert {id: verdict.outcome for id, verdict in made.items()} == dict.fromkeys(made, "holds"), made
    broken = [outcomes(each) for each in contradictions(table)]
    for id in made:
        assert "does not hold" in [each[id] for each in broken], f"{id}: no contradiction breaks it: {broken}"
    assert set(outcomes(ResultTable()).values()) == {"undecided"}


def made_study_result(name: str, failing: Sequence[str] = ()) -> StudyResult:
    """The result of a study that trains models, in which all runs of some schemes failed."""
    study = STUDIES[name]()
    table = made_results(study, lambda run: scored(None if run["scheme"] in failing else 20.0))
    return StudyResult(
        study=name,
        scale="tiny",
        version=study.version,
        made=date(2026, 11, 18),
        seconds=60.0,
        machine="x86_64, 2 cores",
        versions={"lamina": "0.1.0"},
        components=run_versions(study, "tiny"),
        verdicts={each.claim.id: each.verdict for each in study.judge(table)},
        samples=tuple(stored(table)),
    )
