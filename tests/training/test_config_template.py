"""The config that `lamina init` writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lamina.config import read_values
from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from lamina.training.config_template import SMALL, config_template, write_template
from support.small_runs import store_for


@pytest.mark.parametrize("task", TASKS)
def test_the_template_of_every_task_trains(task: str, stores: Path, tmp_path: Path) -> None:
    """On few examples and steps; tests/test_configs.py trains what `lamina init` writes on the embedded data."""
    file = write_template(task, tmp_path / "own.toml")
    short = [f"data.store={store_for(task, stores).folder}", "train.steps=2", "train.validate_every=0"]
    config = RunConfig.read(read_values(file, [*short, "model.model_dim=16"]), where="test")
    assert config.task == task
    assert Run(config, tmp_path / "run").train(quiet=True).step == 2


def test_every_key_has_its_description_and_a_missing_value_is_a_comment() -> None:
    text = config_template("translation")
    assert "# The peak learning rate. Allowed: number > 0.\nlearning_rate = 0.001\n" in text
    assert '# store = "data/own"\n' in text
    values = tomllib.loads(text)
    for section, chosen in SMALL.items():
        assert values[section] == {key: value for key, value in chosen.items() if value is not None}
    assert max(map(len, text.splitlines())) <= 105


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("mine")
    with pytest.raises(UserError, match=r"own.toml: exists already; choose another name with --output"):
        write_template("translation", tmp_path / "own.toml")
    assert (tmp_path / "own.toml").read_text() == "mine"


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'translation'"):
        write_template("translaton", tmp_path / "own.toml")
    with pytest.raises(UserError, match=r"ends in \.toml"):
        write_template("translation", tmp_path / "own")
    assert list(tmp_path.iterdir()) == []
