"""The cells of a grid: all combinations, mistakes in their settings, and the training of one cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.config import read_values, to_toml
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.studies.cells import is_done, make_cells, read_depth, train_cell
from lamina.training.config import RunConfig


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text("seed = 7\n[model]\nnum_layers = 2\nmodel_dim = 16\n")
    return file


def test_every_combination_seed_by_seed(config: Path) -> None:
    cells = make_cells(read_values(config, ["train.steps=5"]), ["b2t", "post-ln"], ["3", "4-2"], seeds=2)
    assert [cell.name for cell in cells] == [
        f"{scheme}-{depth}-seed{seed}" for seed in (7, 8) for depth in ("3", "4-2") for scheme in ("b2t", "post-ln")
    ]
    last = cells[-1].config
    assert (last.seed, last.train.steps) == (8, 5)
    assert last.model.residual == "post-ln"
    assert list(last.model.num_layers) == [4, 2]


def test_encoder_and_decoder_may_differ(config: Path) -> None:
    (cell, same) = make_cells(read_values(config), ["post-ln / pre-ln", "b2t/b2t"])
    assert (cell.schemes, cell.name) == (("post-ln", "pre-ln"), "post-ln+pre-ln-2-seed7")
    assert list(cell.config.model.residual) == ["post-ln", "pre-ln"]
    assert same.schemes == ("b2t",)


def test_depth_of_the_config_is_the_default(config: Path) -> None:
    assert [cell.depth for cell in make_cells(read_values(config), ["b2t"])] == [2]


@pytest.mark.parametrize(
    ("schemes", "depths", "says"),
    [
        (["b2t", "b2t"], [], "'b2t' is listed twice"),
        (["b2t", "b2d"], [], "b2d"),
        (["b2t/pre-ln/post-ln"], [], "names 3 schemes"),
        (["b2t", "b2t/b2t"], [], "'b2t' is listed twice"),
        (["b2t"], ["6", "06"], "'06' is not a depth"),
        (["b2t"], ["6", "6"], "'6' is listed twice"),
        (["b2t"], ["0"], "not a depth"),
    ],
)
def test_mistakes_are_named(config: Path, schemes: list[str], depths: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make_cells(read_values(config), schemes, depths)


def test_config_without_a_depth(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    file.write_text("[model]\nmodel_dim = 16\n")
    with pytest.raises(UserError, match=r"no depth is given; set model.num_layers"):
        make_cells(read_values(file), ["b2t"])
    assert make_cells(read_values(file, ["model.preset=iwslt"]), ["b2t"])[0].depth == 6


def test_depths_of_two_stacks() -> None:
    assert read_depth(" 60-12 ") == read_depth((60, 12)) == (60, 12)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was trained; nothing else."""
    with RunFolder(tmp_path / "run").claim() as folder:
        folder.store_config(to_toml(RunConfig()))
        folder.set_status("finished", 4)
    return folder.path


def refuse(message: str) -> Any:
    def raises(*_: object, **__: object) -> None:
        raise UserError(message)

    return raises


def test_it_is_done_when_it_is_diagnosed_as_it_would_be_now(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "train", refuse("it is not trained again"))
    monkeypatch.setattr(Run, "diagnose", refuse("its weights are not finite"))
    assert not is_done(run, RunConfig()), "killed before its diagnosis"
    train_cell(run)
    assert is_done(run, RunConfig()), "a model that cannot be measured is not measured again and again"
    other = RunConfig.read({"diagnose": {"thresholds": {"vanishing": {"failure": 0.5}}}}, where="test")
    assert not is_done(run, other)
    with RunFolder(run).claim() as folder:
        folder.set_status("stopped", 3)
    assert not is_done(run, RunConfig())


def test_what_training_says_is_not_lost_where_the_cost_cannot_be_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "status.json").unlink()
    (run / "cost.json").mkdir()
    monkeypatch.setattr(Run, "train", refuse("make room and resume the run"))
    with pytest.raises(UserError, match="make room and resume the run"):
        train_cell(run)
