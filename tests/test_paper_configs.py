"""Every config of a paper: planned at the paper's sizes, and trained for three steps with tiny ones on small data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamina.runs.run import Run, read_config
from lamina.studies.cells import read_depth, read_schemes
from lamina.training.config import RunConfig
from support.small_tasks import small_store

CONFIGS = sorted((Path(__file__).parents[1] / "configs" / "papers").glob("*.toml"))
TINY = {
    "model": ["num_layers=1", "model_dim=16", "feed_forward_dim=32", "num_heads=2"],
    "train": ["steps=3", "epochs=none", "samples=0"],
}
TINY["train"] += [f"{what}_every{length}" for what in ("validate", "save") for length in ("=0", "_epochs=none")]
TINY["train"] += ["evaluate_every_epochs=none"]
every_config = pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def on_small_data(file: Path, stores: Path, *changes: str) -> RunConfig:
    """The config with small embedded data of its task, from random weights."""
    config = read_config(file)
    store = small_store(config.task, stores, 400, train=80, valid=8)
    adaptive = ["model.adaptive_cutoffs=[100, 200]"] if config.model.adaptive_cutoffs else []
    return read_config(
        file, [*adaptive, f"data.store={store.folder}", "data.oversize=alone", "start_from=none", *changes]
    )


@pytest.mark.documented
@every_config
def test_the_config_is_planned_at_its_own_size(file: Path, stores: Path, tmp_path: Path) -> None:
    config = on_small_data(file, stores, "model.adaptive_cutoffs=[]")  # the cost of these depends on the words
    plan = Run(config, tmp_path / "run").plan()
    assert plan.parameters > 5e6
    assert plan.flops_per_step > 0


@pytest.mark.documented
@every_config
def test_the_config_trains_for_three_steps_with_tiny_shapes(file: Path, stores: Path, tmp_path: Path) -> None:
    changes = [f"{section}.{change}" for section, all_ in TINY.items() for change in all_]
    config = read_config(file)
    changes += ["data.batch_examples=4"] if config.data.batch_examples else ["data.max_tokens=400"]
    changes += ["schedule.warmup_steps=1"] if config.schedule.name == "linear" else []
    changes += ["model.front_end_channels=16"] if config.task == "speech-recognition" else []
    changes += ["task_options.block_length=30"] if "block_length" in type(config.task_options).model_fields else []
    status = Run(on_small_data(file, stores, *changes), tmp_path / "run").train(quiet=True)
    assert (status.state, status.step) in (("finished", 3), ("too short", 3))


@every_config
def test_its_comment_names_the_paper_and_commands_that_exist(file: Path) -> None:
    comment = "\n".join(line for line in file.read_text().splitlines() if line.startswith("#"))
    assert re.match(r"# \w+ et al\. 20\d\d", comment)
    for schemes in re.findall(r"--residual ([\w/,-]+)", comment):
        assert [read_schemes(each) for each in schemes.split(",")]
    for depths in re.findall(r"--depth ([\d,-]+)", comment):
        assert [read_depth(each) for each in depths.strip(",").split(",")]
