"""`lamina evaluate`, `generate` and `predict`, as a user calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.runs.run import Run
from support.commands import assert_refused, printed
from support.trained_runs import trained_run


def test_evaluate_prints_the_scores_of_the_chosen_checkpoint(tmp_path: Path) -> None:
    run = str(trained_run("language-modelling", tmp_path))
    heading, row = printed("evaluate", run, "--checkpoint", "latest").splitlines()[:2]
    assert heading.split()[:3] == ["set", "loss", "nll"]
    expected = Run(run).load("latest").evaluate().scores["valid"]["nll"]
    assert float(row.split()[2]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "nowhere"], "nowhere: not a run folder"),
        (["evaluate", "nowhere", "--beam", "4"], "nowhere: not a run folder"),
        (["generate", "nowhere", "beam"], "'beam' is not of the form key=value"),
        (["generate", "nowhere", "--beam", "0"], "Invalid value for '--beam'"),
    ],
)
def test_generate_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(arguments, message, tmp_path)
