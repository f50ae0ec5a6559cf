"""The page of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.diagnosis.measurement import Fact, Location, Series, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.report.pages.comparison import comparison_page, save_comparison
from lamina.report.run_results import RunResult
from lamina.tasks.base import SampleOutput
from lamina.tasks.metric_tables import MetricRow, MetricTable
from support.made_diagnoses import HOSTILE, hostile
from support.made_run_results import CONCLUSIONS, RUNS


@pytest.fixture(scope="module")
def text() -> str:
    return comparison_page(RUNS, "md", CONCLUSIONS, "Demo")


def test_the_conclusions_come_first_and_the_results_next(text: str) -> None:
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == "# Demo"
    assert lines[1:4] == [f"{at}. {sentence}" for at, sentence in enumerate(CONCLUSIONS, start=1)]
    assert lines[4].split("|")[1].strip() == "scheme"


def test_results_have_their_spread_over_seeds_and_say_what_failed(text: str) -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| p")]
    assert ["pre-ln", "6-6", "32.3 ± 0.71", "4.5 ± 0", "1 min 41 s", "296 MiB", "2"] in rows
    assert ["post-ln", "12-12", "failed", "failed", "1 min 47 s", "296 MiB", "2"] in rows
    assert "did not fall below that of guessing" in text


def test_settings_that_differ_have_columns_and_rows_of_their_own() -> None:
    seeds = [run for run in RUNS if (run.schemes, run.layers) == (("b2t",), (6, 6))]
    given = [replace(run, settings=(("learning_rate", own),)) for own in ("0.001", "0.01") for run in seeds]
    text = comparison_page(given, "md", (), "Demo")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0][:3] == ["scheme", "depth", "learning_rate"]
    assert [(row[2], row[-1]) for row in rows if row[0] == "b2t"][:2] == [("0.001", "2"), ("0.01", "2")]


def test_some_failed_seeds_are_counted() -> None:
    finished = [run for run in RUNS if (run.schemes, run.layers) == (("b2t",), (6, 6))]
    text = comparison_page([finished[0], replace(finished[1], state="failed")], "md", (), "Demo")
    assert "31.8; 1 of 2 failed" in text


def test_curves_have_a_panel_per_depth_and_a_line_per_scheme(text: str) -> None:
    part = text.split("## Training loss")[1].split("## ")[0]
    assert part.count("**depth 6-6**") == part.count("**depth 12-12**") == 1
    assert part.count("| post-ln") == 2


def test_diagnoses_of_both_stages_stand_together(text: str) -> None:
    assert "**decoder at the start**" in text
    assert "**decoder at the end**" in text
    assert "**post-ln, encoder at the start**" in text  # a map
    assert "The worst finding of each check, at the end" in text
    assert "post-ln, 12-12, at the start: The gradient of decoder layer 1" in text


def test_gradients_by_layer_are_those_of_the_last_matrices() -> None:
    """They are those that the conclusions quote, at the start and at the end, with a line for each scheme."""
    places = [Location(stack=stack, matrix=matrix) for stack in ("encoder", "decoder") for matrix in ("query", "outer")]
    series = [Series(location=place, x=(1, 2), y=(0.125, 0.5)) for place in places]
    predicted = [each.model_copy(update={"quantity": "post-LN", "role": "predicted"}) for each in series]
    facts = [Fact(name="first/last", location=place, value=0.25) for place in places]
    measurement = GradientByLayer().measurement([*series, *predicted], facts=facts)
    diagnosis = Diagnosis(name="", model="", stage=Stage(name="start"), measurements=(measurement,))
    runs = [replace(run, start=diagnosis, end=diagnosis) for run in RUNS if run.layers == (6, 6)]
    part = comparison_page(runs, "md", (), "Demo").split("## Gradient by layer")[1].split("## ")[0]
    for stack in ("encoder", "decoder"):
        for when in ("start", "end"):
            panel = part.split(f"**{stack} outer at the {when}**")[1].split("**")[0]
            assert all(scheme in panel for scheme in ("post-ln", "pre-ln", "b2t", "theory: post-LN"))
    assert "decoder outer first/last, at the end" in part
    assert "query" not in part


def test_of_one_scheme_the_stages_are_lines_of_one_panel() -> None:
    part = comparison_page(RUNS[:1], "md", (), "Demo").split("## Gradient along the stream")[1].split("## ")[0]
    panel = part.split("**decoder**")[1]
    assert "| at the start " in panel
    assert "| at the end " in panel
    assert "| at the start, theory: norms alone " in panel


def test_a_prediction_stays_with_its_part(text: str) -> None:
    start = RUNS[0].start
    assert start is not None
    part = text.split(f"## {start['gradient-along-stream'].about.title}, 6-6")[1].split("## ")[0]
    for panel in part.split("\n**")[2:]:
        assert ("theory" in panel.split("|\n\n")[0]) == panel.startswith("decoder")


def test_samples_are_shown_once_with_all_outputs(text: str) -> None:
    part = text.split("## Samples")[1]
    assert part.count("Guten Morgen!") == 1
    assert "post-ln, 12-12: the the" in part


def test_diverged_and_hostile_runs_are_shown_as_they_are(tmp_path: Path) -> None:
    curve = [(1.0, 9.0), (2.0, 1e308), (3.0, math.inf), (4.0, math.nan)]
    run = RunResult(
        name=HOSTILE[0],
        schemes=("no-such-scheme", HOSTILE[1]),
        layers=(2, 2),
        seed=0,
        state="failed",
        reason=HOSTILE[2],
        validation_loss=curve,
        metrics={HOSTILE[0]: 1.0},
        start=hostile(),
        samples=(SampleOutput(*HOSTILE),),
    )
    file = tmp_path / "hostile.html"
    save_comparison([run, replace(run, seed=1)], file, HOSTILE)
    written = file.read_text()
    assert "<script" not in written
    assert "<img" not in written
    assert "infinite at 3" in written
    assert "not a number at 4" in written


def test_long_curves_are_drawn_short(tmp_path: Path) -> None:
    run = replace(RUNS[0], training_loss=[(step, 1.0 / step) for step in range(1, 20001)], start=None, end=None)
    save_comparison([run], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 100_000


def test_there_must_be_runs_and_a_known_ending(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run"):
        save_comparison([], tmp_path / "page.html")
    with pytest.raises(UserError, match=r"\.html, \.md"):
        save_comparison(RUNS, tmp_path / "page.json")


def table_of(text: str, caption: str) -> list[list[str]]:
    lines = text.split(f"{caption}:\n\n")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [rows[0], *rows[2:]]


def test_tables_of_metrics() -> None:
    """Of one model as declared; of several, a table for each column, with the models side by side."""
    rows = (MetricRow("de", ("en-de", "de-en", None)), MetricRow("fr", ("en-fr", "fr-en", None)))
    tables = (MetricTable("BLEU", "language", ("EX", "XE", "ALL"), rows, MetricRow("mean", ("EX", "XE", "bleu"))),)

    def made(run: RunResult) -> RunResult:
        values = {"en-de": 20.0 + run.seed, "de-en": 25.0, "EX": 20.0 + run.seed, "XE": 25.0, "bleu": 23.0}
        return replace(run, final=values if run.state == "finished" else {}, tables=tables)

    runs = [made(run) for run in RUNS if run.layers == (12, 12)]
    for form in ("md", "html"):
        assert "BLEU: XE" in comparison_page(runs, form, (), "Demo")
    text = comparison_page(runs, "md", (), "Demo")
    assert table_of(text, "BLEU: EX") == [
        ["language", "post-ln, 12-12", "pre-ln, 12-12", "b2t, 12-12"],
        ["de", "failed", "21.5 ± 0.71", "21.5 ± 0.71"],
        ["mean", "failed", "21.5 ± 0.71", "21.5 ± 0.71"],
    ]
    assert "BLEU: ALL" not in text, "only the means have it, which are in the table of results"
    alone = comparison_page(runs[-1:], "md", (), "Demo")
    assert table_of(alone, "BLEU") == [
        ["language", "EX", "XE", "ALL"],
        ["de", "22", "25", ""],
        ["mean", "22", "25", "23"],
    ]
