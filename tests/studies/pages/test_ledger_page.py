"""The page of all claims."""

from __future__ import annotations

import pytest

from lamina.studies.ledger import StudyResult
from lamina.studies.pages.ledger_page import count_outcomes, describe_counts, ledger_entries, ledger_page
from lamina.studies.papers import STUDIES
from support.made_runs import made_study_result


@pytest.fixture
def result() -> StudyResult:
    return made_study_result("b2t-fig1", failing=("post-ln",))


def test_all_claims_are_listed_whether_run_or_not(result: StudyResult) -> None:
    entries = ledger_entries({"b2t-fig1": result})
    assert len(entries) == 165
    assert describe_counts({"holds": 1, "does not hold": 1, "undecided": 1, "not run": 1}) == (
        "1 claim holds, 1 does not hold, 1 is undecided, 1 was not run"
    )
    assert count_outcomes(entries) == {"holds": 1, "does not hold": 0, "undecided": 0, "not run": 164}
    assert [each.id for each in entries][:2] == ["X-01", "X-02"]
    assert {each.study for each in entries} >= set(STUDIES) - {"residual-table1"}


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_claim_has_its_verdict_numbers_and_link(result: StudyResult, form: str) -> None:
    page = ledger_page({"b2t-fig1": result}, form, {"b2t-fig1": "b2t-fig1.html"})
    assert page.count("not run") >= 164
    assert "5 of 5 seeds failed" in page
    assert "b2t-fig1.html#B-01" in page
    assert "made on 2026-11-18" in page


def test_the_page_filters_without_script(result: StudyResult) -> None:
    page = ledger_page({"b2t-fig1": result})
    assert "<script" not in page
    assert "main:has(#paper-b2t:checked) .claim:not(.paper-b2t)" in page
    assert page.count('class="finding claim') == 165


def test_a_stale_result_is_marked(result: StudyResult) -> None:
    stale = result.model_copy(update={"version": 0})
    assert "Stale" in ledger_page({"b2t-fig1": stale})
    older = result.model_copy(update={"components": {**result.components, "shared path": 0}})
    assert "Stale" in ledger_page({"b2t-fig1": older})
    assert "Stale" not in ledger_page({"b2t-fig1": result})
