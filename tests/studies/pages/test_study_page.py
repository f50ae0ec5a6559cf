"""The page of a study, as HTML and Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.ledger import StudyResult, run_study
from lamina.studies.pages.study_page import count_verdicts, made_by, save_study, study_page


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study("xiong-fig3", tmp_path_factory.mktemp("study"), "micro")


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_page_has_every_claim_with_its_verdict_and_the_figures(result: StudyResult, form: str) -> None:
    page = study_page(result, form)
    for each in result.judge():
        assert each.claim.id in page
    assert "Figure 3 a, b" in page
    assert "embedded language pair" in page  # what stands for the paper's data
    assert ("<svg" in page) == (form == "html")


def test_a_page_is_written_by_its_ending(result: StudyResult, tmp_path: Path) -> None:
    save_study(result, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text().startswith("# xiong-fig3")


def test_verdicts_are_counted_and_the_conditions_named(result: StudyResult) -> None:
    judged = result.judge()
    holding = sum(each.verdict.outcome == "holds" for each in judged)
    assert count_verdicts(judged).startswith(f"{holding} claim")
    assert "Scale micro" in made_by(result)
    assert "torch" in made_by(result)
