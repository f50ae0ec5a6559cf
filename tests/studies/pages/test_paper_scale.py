"""The studies at the papers' sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.pages.paper_scale import FILES, describe_paper_scale
from lamina.studies.papers import STUDIES

CONFIGS = Path(__file__).parents[3] / "configs" / "papers"


def test_every_study_that_trains_models_has_configs_and_every_config_a_study() -> None:
    assert set(FILES) == {name for name, study in STUDIES.members.items() if study().runs("tiny")}
    used = {file for files in FILES.values() for file in files}
    assert used == {file.stem for file in CONFIGS.glob("*.toml")}


def test_the_plan_names_data_and_commands() -> None:
    text = describe_paper_scale("b2t-table1", CONFIGS)
    assert "lamina prepare wmt14-en-de" in text
    assert "lamina compare" in text
    assert "lamina plan" in text


def test_configs_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="b2t-table1.toml"):
        describe_paper_scale("b2t-table1", tmp_path)
