"""A run is resumed with the config it was started with, but for what affects no results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.data.store import Store
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.changes import former_config, record_start, refuse_changes
from lamina.training.config import RunConfig
from support.small_runs import config_for


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def started(config: RunConfig, path: Path) -> RunFolder:
    """The folder of a run that was started with this config and has a result."""
    with RunFolder(path).claim() as folder:
        record_start(folder, config, store_of(config))
        folder.set_status("finished", config.train.steps)
    return folder


def store_of(config: RunConfig) -> Store:
    return Store.open(config.data.store or "")


@pytest.mark.parametrize(
    "harmless",
    [
        {"train": {"track": ["tensorboard"]}},
        {"train": {"log_every": 7, "samples": 0, "keep": 5, "save_every": 1}},
        {"train": {"steps": 20}},
        {"train": {"device": "cpu", "parallel": "fsdp", "threads": 2, "compile": True}},
        {"diagnose": {"every": 3, "band": {"window": 9}}},
        {"model": {"checkpoint_layers": True}},
    ],
)
def test_what_affects_no_results_may_change(harmless: dict[str, Any], stores: Path, tmp_path: Path) -> None:
    folder = started(config_for("translation", stores), tmp_path / "run")
    former, changed = former_config(folder), config_for("translation", stores, **harmless)
    assert former is not None
    assert former != changed
    refuse_changes(folder, former, changed, store_of(changed))


@pytest.mark.parametrize(
    ("harmful", "named"),
    [
        ({"seed": 5}, "seed: was 1, is 5"),
        ({"train": {"clip": 2.5}}, r"train\.clip: was 0\.0, is 2\.5"),
        ({"data": {"max_tokens": 77}}, r"data\.max_tokens: was 200, is 77"),
    ],
)
def test_what_affects_results_may_not(harmful: dict[str, Any], named: str, stores: Path, tmp_path: Path) -> None:
    folder = started(config_for("translation", stores), tmp_path / "run")
    former, changed = former_config(folder), config_for("translation", stores, **harmful)
    assert former is not None
    with pytest.raises(UserError, match=rf"another config:\n  {named}\nUse another folder"):
        refuse_changes(folder, former, changed, store_of(changed))


def test_a_store_that_was_moved_is_the_same_data(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores)
    folder = started(config, tmp_path / "run")
    moved = tmp_path / "moved"
    moved.symlink_to(config.data.store or "")
    former, changed = former_config(folder), config_for("translation", stores, data={"store": str(moved)})
    assert former is not None
    refuse_changes(folder, former, changed, Store.open(moved))
