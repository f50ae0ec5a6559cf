"""Runs on a terminal."""

from __future__ import annotations

import pytest

from lamina.report.terminal.runs import Evaluation, RunSummary, show_comparison, show_evaluation, show_run
from lamina.tasks.metric_tables import MetricRow, MetricTable

HOSTILE = "[/x] [red]"


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_names_and_reasons_are_text_not_markup(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunSummary(HOSTILE, state, f"why {HOSTILE}", 3, 3, 2.5, {"nll": 2.5, "bleu": 30.0, f"bleu {HOSTILE}": 31.0})
    show_run(run)
    show_comparison([run, run])
    show_evaluation(Evaluation({HOSTILE: {"bleu": 30.0}}, {HOSTILE: HOSTILE}))
    shown = capsys.readouterr().out
    assert shown.count(f"why {HOSTILE}") == 3
    assert shown.count(HOSTILE) >= 10


def test_metrics_that_belong_to_a_table_are_printed_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (MetricRow("de", ("bleu en-de", "bleu de-en")), MetricRow("fr", ("bleu en-fr", "bleu fr-en")))
    tables = (MetricTable("BLEU by language", "language", ("EX", "XE"), rows, MetricRow("mean", ("EX", "XE"))),)
    values = {"nll": 2.5, "bleu en-de": 20.0, "bleu de-en": 25.0, "EX": 20.0, "XE": 25.0, "bleu": 22.5}
    show_evaluation(Evaluation({"test": values}, {}, tables=tables))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["set", "nll", "EX", "XE", "bleu"],
        ["test", "2.5", "20", "25", "22.5"],
        [],
        ["BLEU", "by", "language,", "test"],
        ["language", "EX", "XE"],
        ["de", "20.00", "25.00"],
        ["mean", "20.00", "25.00"],
    ]
    run = RunSummary("b2t", "finished", "", 3, 3, 2.5, values, tables=tables)
    show_run(run)
    assert "BLEU by language, valid" in capsys.readouterr().out
    show_comparison([run, run])
    heading = capsys.readouterr().out.splitlines()[0].split()
    assert heading == ["run", "steps", "best", "nll", "EX", "XE", "bleu"], "no column for each direction"
