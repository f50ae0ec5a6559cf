"""The ledger: results of studies as files, read and judged again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.ledger import StudyResult, read_ledger, run_study
from lamina.studies.pages.study_page import study_page
from lamina.studies.papers.xiong_fig3 import XiongFig3


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study("xiong-fig3", tmp_path_factory.mktemp("study"), "micro")


def test_a_stored_result_is_read_back_with_the_same_verdicts(result: StudyResult, tmp_path: Path) -> None:
    file = result.write(tmp_path)
    assert file.name == "xiong-fig3.micro.json"
    read = StudyResult.read(file)
    assert read == result
    assert {each.claim.id: each.verdict for each in read.judge()} == result.verdicts
    assert read_ledger(tmp_path) == [result]


def test_values_are_stored_by_seed_with_six_digits(result: StudyResult) -> None:
    assert len(result.results) == sum(len(each.seeds) for each in result.samples)
    values = [value for each in result.samples for value in each.values if value is not None]
    assert all(value == float(f"{value:.6g}") for value in values)


def test_a_result_of_another_version_is_stale(result: StudyResult, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not result.is_stale
    monkeypatch.setattr(XiongFig3, "version", XiongFig3.version + 1)
    assert result.is_stale
    assert "has changed since" in study_page(result)


@pytest.mark.parametrize("content", ["", "{}", '{"format": "lamina-store"}'])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(UserError, match="not the result of a study"):
        StudyResult.read(file)
    with pytest.raises(UserError, match="No such file"):
        StudyResult.read(tmp_path / "missing.json")
