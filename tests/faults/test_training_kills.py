"""A run that is killed again and again ends with the weights of one that was never interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.train import checkpoint
from lamina.train.run_folder import RunFolder

pytestmark = pytest.mark.faults
KILLS = 20
CONFIG = """
[data]
store = "{store}"
max_tokens = 150
oversize = "alone"
[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 2
residual = "admin"
[schedule]
name = "constant"
learning_rate = 1e-3
[train]
steps = 400
save_every = 1
validate_every = 50
samples = 0
threads = 1
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(tmp_path / "toy"), tokenizer={"size": 400}, **sets))
    file = tmp_path / "small.toml"
    file.write_text(CONFIG.format(store=tmp_path / "toy"))
    return file


def start(config: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lamina.cli", "train", str(config), "--folder", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Until the run has saved that step, or has ended."""
    while process.poll() is None:
        saved = checkpoint.list_checkpoints(folder / "checkpoints") if folder.exists() else []
        if saved and int(saved[-1].name.removeprefix("step-")) >= step:
            return
        time.sleep(0.002)


def test_killed_twenty_times(config: Path, tmp_path: Path) -> None:
    whole = start(config, tmp_path / "whole")
    assert whole.wait() in (0, 3), whole.stderr

    chance, kills, step = random.Random(0), 0, 0
    while kills < KILLS:
        process = start(config, tmp_path / "killed")
        step += 1 + chance.randrange(15)
        wait_for_step(tmp_path / "killed", step, process)
        time.sleep(chance.random() * 0.03)  # saving takes most of such a small step, so many kills fall into it
        assert process.poll() is None, "the run ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        status = RunFolder(tmp_path / "killed").status()
        assert status is not None
        assert status.state == "running"
    last = start(config, tmp_path / "killed")
    assert last.wait() in (0, 3), last.stderr

    one, other = (checkpoint.load_model(tmp_path / name / "checkpoints" / "latest") for name in ("whole", "killed"))
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
    first, second = (
        [line["loss"] for line in RunFolder(tmp_path / name).metrics.read() if "loss" in line]
        for name in ("whole", "killed")
    )
    assert first == second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_asks_to_be_started_again(number: signal.Signals, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("save_every = 1\n", "save_every = 5\n"))
    process = start(config, tmp_path / "run")
    wait_for_step(tmp_path / "run", 10, process)
    process.send_signal(number)
    assert process.wait() == 75
    status = RunFolder(tmp_path / "run").status()
    assert status is not None
    assert status.state == "stopped"
    saved = checkpoint.list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert saved.name == f"step-{status.step:08d}"


def test_a_second_process_is_refused(config: Path, tmp_path: Path) -> None:
    first = start(config, tmp_path / "run")
    wait_for_step(tmp_path / "run", 1, first)
    second = start(config, tmp_path / "run")
    _, error = second.communicate()
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert str(first.pid) in error
