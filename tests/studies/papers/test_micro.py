"""Every study that trains models runs at scale `micro`, in this process, and its page is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.ledger import run_study
from lamina.studies.pages.study_page import study_page
from lamina.studies.papers import STUDIES

TRAINING = [name for name, study in STUDIES.members.items() if study().runs("micro")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, because studies share runs."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_a_study_runs(name: str, folder: Path) -> None:
    result = run_study(name, folder, "micro")
    assert set(result.verdicts) == {each.id for each in STUDIES[name].claims}
    assert not result.is_stale
    assert result.runs
    for form in ("html", "md"):
        assert result.study in study_page(result, form)
