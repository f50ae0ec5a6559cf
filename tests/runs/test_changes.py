"""A run is resumed with the config it was started with, except for values that do not affect results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.changes import former_config, record_start, refuse_changes
from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.small_runs import config_for


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
        {"train": {"log_every": 7, "samples": 0, "keep_checkpoints": 5, "save_every": 1}},
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
        ({"train": {"clip_norm": 2.5}}, r"train\.clip_norm: was 0\.0, is 2\.5"),
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


def test_a_changed_config_is_refused_with_the_difference(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    changed = config_for("translation", stores, train={"steps": 2, "log_every": 7}, model={"dropout": 0.3})
    with pytest.raises(UserError, match=r"another config:\n  model.dropout: was 0.1, is 0.3\nUse another folder"):
        Run(changed, tmp_path / "run").train(quiet=True)
    longer = config_for("translation", stores, train={"steps": 3})
    assert Run(longer, tmp_path / "run").train(quiet=True).step == 3
    assert Run(changed, tmp_path / "run").train(quiet=True, force=True).step == 3


def test_data_prepared_again_is_refused_with_the_difference(stores: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    for name, text in {"a.txt": "one two\nthree four\n", "b.txt": "eins zwei\ndrei vier\n"}.items():
        (tmp_path / name).write_text(text * 20)
    files: dict[str, Any] = {"train": ("a.txt", "b.txt"), "valid": ("a.txt", "b.txt"), "test": ()}

    def prepared(**changes: Any) -> None:
        given = files | {"tokenizer": {"size": 300}, "folder": str(tmp_path), "output": store, "replace": True}
        prepare(PrepareOptions.read(given | changes, where="test"))

    prepared()
    config = config_for("translation", stores, data={"store": store}, train={"steps": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    prepared()
    assert Run(config, tmp_path / "run").train(quiet=True).step == 2  # the same again is the same
    prepared(tokenizer={"size": 265})
    with pytest.raises(UserError, match=r"(?s)prepared again.*settings.tokenizer.size: was 300, is 265\n") as refused:
        Run(config, tmp_path / "run").train(quiet=True)
    assert "tokenizer.source: was '" in str(refused.value)
    (tmp_path / "b.txt").write_text("fünf sechs\n" * 40)
    prepared()
    with pytest.raises(UserError, match=r"source.train .*b.txt: was '\w{12}', is '\w{12}'\n") as refused:
        Run(config, tmp_path / "run").train(quiet=True)
    assert "settings." not in str(refused.value)
