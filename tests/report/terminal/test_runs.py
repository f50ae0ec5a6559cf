"""Runs on a terminal."""

from __future__ import annotations

import pytest

from lamina.report.terminal.runs import Evaluation, RunSummary, show_comparison, show_evaluation, show_run

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
