"""The base class of studies, and all studies at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.papers import STUDIES
from lamina.studies.result_table import ResultTable
from lamina.studies.study import PAPERS, StudyContext

WITHOUT_TRAINING = [name for name, study in STUDIES.members.items() if not study().runs("micro")]
"""Those that train models: papers/test_micro.py."""


@pytest.mark.parametrize("name", WITHOUT_TRAINING)
def test_a_study_runs_at_the_smallest_scale(name: str, tmp_path: Path) -> None:
    study = STUDIES[name]()
    results = ResultTable(study.measure(StudyContext(tmp_path, "micro")))
    assert len(results) > 0
    judged = study.judge(results)
    assert [each.claim.id for each in judged] == [each.id for each in study.claims]
    assert all("not measured" not in each.verdict.measured for each in judged)  # every claim found its values
    for exhibit in study.exhibits(results):
        assert exhibit.title
        assert exhibit.caption
        assert exhibit.panels or exhibit.maps or exhibit.tables


def test_every_study_names_its_paper_and_no_claim_belongs_to_two() -> None:
    assert {study.paper for study in STUDIES.values()} <= set(PAPERS)
    ids = [each.id for study in STUDIES.values() for each in study.claims]
    assert len(set(ids)) == len(ids) > 0


def test_a_smaller_value_is_chosen_for_tests_only(tmp_path: Path) -> None:
    assert StudyContext(tmp_path, "micro").choose(micro=1, otherwise=2) == 1
    assert StudyContext(tmp_path, "tiny").choose(micro=1, otherwise=2) == 2
