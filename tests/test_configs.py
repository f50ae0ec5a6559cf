"""Every shipped config is run, shortened to a few steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFIGS = [file for file in sorted((ROOT / "configs").rglob("*.toml")) if file.stem != "base"]
pytestmark = pytest.mark.documented


@pytest.mark.parametrize("config", CONFIGS, ids=lambda file: file.stem)
def test_config_trains(config: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "configs" / config.stem  # beside each other: they share embedded data
    words = ["train.steps=3", "train.validate_every=0", "train.samples=1", "schedule.warmup_steps=1"]
    command = [sys.executable, "-m", "lamina", "train", str(config), *words, "--folder", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode in (0, 3), ran.stderr  # three steps may not beat counting words: a result, not an error
    assert (folder / "checkpoints" / "latest" / "model.safetensors").exists()
    assert "Traceback" not in ran.stderr
