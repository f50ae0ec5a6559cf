"""The runs of a comparison, and the mistakes one can make in asking for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.cells import make_cells, read_depth


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text("seed = 7\n[model]\nnum_layers = 2\nmodel_dim = 16\n")
    return file


def test_every_combination_seed_by_seed(config: Path) -> None:
    cells = make_cells(config, ["train.steps=5"], ["b2t", "post-ln"], ["3", "4-2"], seeds=2)
    assert [cell.name for cell in cells] == [
        f"{scheme}-{depth}-seed{seed}" for seed in (7, 8) for depth in ("3", "4-2") for scheme in ("b2t", "post-ln")
    ]
    last = cells[-1].config
    assert (last.seed, last.train.steps) == (8, 5)
    assert last.model.residual == "post-ln"
    assert list(last.model.num_layers) == [4, 2]


def test_encoder_and_decoder_may_differ(config: Path) -> None:
    (cell, same) = make_cells(config, [], ["post-ln / pre-ln", "b2t/b2t"])
    assert (cell.scheme, cell.name) == ("post-ln/pre-ln", "post-ln+pre-ln-2-seed7")
    assert list(cell.config.model.residual) == ["post-ln", "pre-ln"]
    assert same.scheme == "b2t"


def test_depth_of_the_config_is_the_default(config: Path) -> None:
    assert [cell.depth for cell in make_cells(config, [], ["b2t"])] == [2]


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
        make_cells(config, [], schemes, depths)


def test_config_without_a_depth(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    file.write_text("[model]\nmodel_dim = 16\n")
    with pytest.raises(UserError, match=r"no depth is given; set model.num_layers"):
        make_cells(file, [], ["b2t"])
    assert make_cells(file, ["model.preset=iwslt"], ["b2t"])[0].depth == 6


def test_depths_of_two_stacks() -> None:
    assert read_depth(" 60-12 ") == (60, 12)
