"""Training under torchrun on two and four processes: the same updates as on one, and Admin's ω the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.train import checkpoint
from lamina.train.run_folder import RunFolder

pytestmark = pytest.mark.distributed
CONFIG = """
[data]
store = "{store}"
max_tokens = 120
oversize = "alone"
[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 2
dropout = 0.0
[schedule]
name = "constant"
learning_rate = 1e-3
[train]
steps = 8
save_every = 4
log_every = 1
samples = 0
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distributed")
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(folder / "toy"), tokenizer={"size": 400}, **sets))
    (folder / "small.toml").write_text(CONFIG.format(store=folder / "toy"))
    return folder / "small.toml"


def train(processes: int, config: Path, folder: Path, *words: str) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "--no-python"]
    lamina = [sys.executable, "-m", "lamina.cli", "train", str(config), *words, "--folder", str(folder)]
    command = [sys.executable, *launcher, *lamina] if processes > 1 else lamina
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    # Eight steps may leave the model no better than counting words: that is a result (3), not an error.
    assert ran.returncode in (0, 3) or (processes > 1 and "exitcode  : 3" in ran.stderr), ran.stderr[-3000:]


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in RunFolder(folder).metrics.read() if "loss" in line]


@pytest.mark.parametrize(("residual", "processes"), [("admin", 2), ("pre-ln", 4)])
def test_several_processes_train_as_one(residual: str, processes: int, config: Path, tmp_path: Path) -> None:
    words = [f"model.residual={residual}"]
    train(1, config, tmp_path / "one", *words)
    train(processes, config, tmp_path / "several", *words)
    assert len(losses(tmp_path / "one")) == 8
    assert losses(tmp_path / "several") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)
    one, several = (checkpoint.load_model(tmp_path / name / "checkpoints" / "latest") for name in ("one", "several"))
    for name, value in one.items():
        assert torch.allclose(value, several[name], atol=2e-3), name


def test_processes_join_and_leave_between_sessions(config: Path, tmp_path: Path) -> None:
    """A run of one process goes on with two, then with one: it meets the batches it would have met."""
    train(1, config, tmp_path / "one")
    for processes, steps in ((1, 3), (2, 6), (1, 8)):
        train(processes, config, tmp_path / "mixed", f"train.steps={steps}")
    assert losses(tmp_path / "mixed") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)
