"""Every smoke config, and the one that `lamina init` writes for every task, is run, shortened to a few steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lamina.tasks import TASKS
from lamina.training.config_template import write_template

ROOT = Path(__file__).parents[1]
CONFIGS = [file for file in sorted((ROOT / "configs" / "smoke").glob("*.toml")) if file.stem != "base"]
pytestmark = pytest.mark.documented


@pytest.mark.parametrize("config", CONFIGS, ids=lambda file: file.stem)
def test_config_trains(config: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    train(config, tmp_path_factory, ["schedule.warmup_steps=1"])


@pytest.mark.parametrize("task", TASKS)
def test_the_config_of_init_trains_on_the_embedded_data(
    task: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    train(write_template(task, tmp_path / f"{task}-init.toml"), tmp_path_factory, [])


def train(config: Path, tmp_path_factory: pytest.TempPathFactory, changes: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "configs" / config.stem  # beside each other: they share embedded data
    words = ["train.steps=3", "train.validate_every=0", "train.samples=1", *changes]
    command = [sys.executable, "-m", "lamina", "train", str(config), *words, "--folder", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "checkpoints" / "latest" / "model.safetensors").exists()
    assert "Traceback" not in ran.stderr
