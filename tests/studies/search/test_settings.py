"""The section `[search]`: all combinations, names of folders, and mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.config import read_values
from lamina.errors import UserError
from lamina.studies.search.settings import SearchSetting, read_search
from lamina.training.config import RunConfig

SEARCH = """
seed = 3
[data]
batch_examples = 8
[search]
seeds = 2
data.batch_examples = [16, 32]
schedule.learning_rate = [1e-5, 1e-4]
"train.epochs" = [3]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "own.toml"
    file.write_text(SEARCH)
    return file


def test_every_combination_seed_by_seed(config: Path) -> None:
    settings, cells = read_search(read_values(config, kind=RunConfig), "own.toml")
    assert [setting.cells for setting in settings] == [
        ("16", "1e-05", "3"), ("16", "0.0001", "3"), ("32", "1e-05", "3"), ("32", "0.0001", "3")
    ]  # fmt: skip
    assert [cell.seed for cell in cells] == [3] * 4 + [4] * 4
    assert cells[0].name == "batch_examples16-learning_rate1e-05-epochs3-seed3"
    last = cells[-1].config
    assert (last.seed, last.data.batch_examples, last.schedule.learning_rate) == (4, 32, 1e-4)
    assert (last.train.epochs, last.train.steps) == (3, None)


def test_six_seeds_by_default_and_values_may_be_overridden(config: Path) -> None:
    overrides = ["search.train.epochs=[5,6]", "search.schedule.learning_rate=[1e-3]"]
    values = read_values(config, overrides, RunConfig)
    del values["search"]["seeds"]
    settings, cells = read_search(values, "own.toml")
    assert len(cells) == 6 * len(settings) == 6 * 2 * 2


def test_a_searched_scheme_brings_no_options_of_another(tmp_path: Path) -> None:
    values = {"model": {"residual": "resi-dual", "residual_options": {"dual_scale": 0.5}}}
    _, cells = read_search(values | {"search": {"model": {"residual": ["resi-dual", "b2t"]}}}, "own.toml")
    assert cells[1].config.model.residual == "b2t"


def test_names_of_folders_are_safe_and_distinct() -> None:
    values = ["runs/a", "runs:a", "../x", "y" * 200, ["post-ln", "pre-ln"], "b2t"]
    names = [SearchSetting((("start_from", value),)).name for value in values]
    assert len(set(names)) == len(names)
    assert names[-1] == "start_fromb2t"
    for name in names:
        assert "/" not in name
        assert len(name) < 220
    clash = SearchSetting((("model.dropout", 0.1), ("task_options.dropout", 0.2)))
    assert clash.name == "model.dropout0.1-task_options.dropout0.2"


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (None, r"own.toml: no values to search; list them as \[search\] with train.epochs = \[3, 5\]"),
        ({"seeds": 3}, r"search has no key of the config"),
        ({"seeds": 0, "train": {"epochs": [3]}}, r"own.toml: search: seeds"),
        ({"train": {"epochs": 3}}, r"search.train.epochs: give a list of values, such as \[3\]"),
        ({"train": {"epochs": []}}, r"search.train.epochs: give a list of values"),
        ({"train": {"epochs": [3, 5, 3]}}, r"search.train.epochs: the value 3 is listed twice"),
        ({"seed": [1, 2]}, r"search.seed: seeds are not searched; give their number as search.seeds"),
        ({"train": {"epoch": [3]}}, r"own.toml with train.epoch = 3: train.epoch: unknown option 'epoch'"),
        ({"train": {"epochs": [3, "x"]}}, r"own.toml with train.epochs = \"x\": train.epochs"),
    ],
)
def test_mistakes_are_named(section: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_search({} if section is None else {"search": section}, "own.toml")


def test_a_run_refuses_the_section(config: Path) -> None:
    with pytest.raises(UserError, match=r"own.toml: search: these are the values of many runs.*use lamina search"):
        RunConfig.read(read_values(config), where="own.toml")
