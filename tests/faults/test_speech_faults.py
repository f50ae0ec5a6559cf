"""Full disks and kills while features are computed and while a model of speech trains: nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.training.checkpoint import storage as checkpoint
from support.processes import heed_interrupts, limit_files

pytestmark = pytest.mark.faults
SENTENCES = 600  # three batches of 256 recordings at most, so three chunks
PREPARE = """
import json, sys
from lamina.data.prepare import PrepareOptions, prepare
from lamina.errors import UserError
try:
    prepare(PrepareOptions.read(json.loads(sys.argv[1]), "test"))
except UserError as error:
    print(error)
    sys.exit(3)
"""
CONFIG = """
task = "speech-recognition"
[task_options]
ctc_weight = 0.3
spec_augment = {frequency_width = 20, time_width = 30}
[data]
store = "STORE"
max_tokens = 1000
[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 1
front_end_channels = 8
[schedule]
name = "constant"
[train]
steps = 30
save_every = 1
validate_every = 0
log_every = 1
threads = 1
"""


def options(folder: Path, sentences: int = SENTENCES) -> dict[str, Any]:
    sets = {"train": [f"speech:{sentences}"], "valid": ["speech:4"]}
    tokenizer = {"kind": "character", "size": 0}
    return {"format": "embedded", "output": str(folder / "out" / "store"), **sets, "tokenizer": tokenizer}


def start_preparing(folder: Path, limit: int = 0) -> subprocess.Popen[str]:
    def prepared() -> None:
        heed_interrupts()
        if limit:
            limit_files(limit)

    command = [sys.executable, "-c", PREPARE, json.dumps(options(folder))]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, preexec_fn=prepared)


def chunks(folder: Path) -> list[Path]:
    return sorted((folder / "out").glob(".store.lamina-features/*.npz"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of a preparation that was never interrupted."""
    return prepare(PrepareOptions.read(options(tmp_path_factory.mktemp("whole")), "test"))


def assert_same_store(folder: Path, store: Store) -> None:
    found = Store.open(folder / "out" / "store")
    assert {name: file.sha256 for name, file in found.manifest.files.items()} == {
        name: file.sha256 for name, file in store.manifest.files.items()
    }


def test_a_full_disk_while_features_are_computed(tmp_path: Path, store: Store) -> None:
    """Chunks of some 4 MB do not fit; afterwards the same command finishes."""
    process = start_preparing(tmp_path, limit=1_000_000)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 3, errors
    assert "No space left" in output or "File too large" in output
    assert not (tmp_path / "out" / "store").exists()
    assert start_preparing(tmp_path).wait(300) == 0
    assert_same_store(tmp_path, store)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["store"]


def test_a_preparation_that_is_killed_continues_with_its_chunks(tmp_path: Path, store: Store) -> None:
    process = start_preparing(tmp_path)
    while not chunks(tmp_path) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    left = {path: path.stat().st_mtime_ns for path in chunks(tmp_path)}
    assert left, "the preparation ended before it could be killed"
    assert not (tmp_path / "out" / "store").exists()
    process = start_preparing(tmp_path)
    kept = True
    while process.poll() is None:
        kept = kept and all(path.stat().st_mtime_ns == stamp for path, stamp in left.items() if path.exists())
        time.sleep(0.01)
    assert process.returncode == 0
    assert kept, "a chunk was computed again"
    assert_same_store(tmp_path, store)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    small = prepare(PrepareOptions.read(options(folder, sentences=40), "test"))
    (folder / "speech.toml").write_text(CONFIG.replace("STORE", str(small.folder)))
    return folder / "speech.toml"


def start_training(config: Path, folder: Path, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lamina", "train", str(config), "--folder", str(folder)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, preexec_fn=lambda: limit_files(limit) if limit else None)


@pytest.fixture(scope="module")
def whole(config: Path) -> Path:
    assert start_training(config, config.parent / "whole").wait() in (0, 3)
    return config.parent / "whole"


def assert_same_run(one: Path, other: Path) -> None:
    first, second = (checkpoint.load_model(each / "checkpoints" / "latest") for each in (one, other))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    losses = [[line["loss"] for line in RunFolder(each).metrics.read() if "loss" in line] for each in (one, other)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 30


def test_a_run_that_is_killed_resumes_exactly(config: Path, whole: Path, tmp_path: Path) -> None:
    for saved in (3, 12):
        process = start_training(config, tmp_path / "run")
        while process.poll() is None and len(list((tmp_path / "run").glob(f"checkpoints/step-*{saved:02d}"))) == 0:
            time.sleep(0.002)
        assert process.poll() is None, "the run ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert start_training(config, tmp_path / "run").wait() in (0, 3)
    assert_same_run(whole, tmp_path / "run")


def test_a_full_disk_while_a_model_trains(config: Path, whole: Path, tmp_path: Path) -> None:
    process = start_training(config, tmp_path / "run", limit=40_000)
    _, said = process.communicate()
    assert process.returncode == 2
    assert "make room" in said
    assert "Traceback" not in said
    assert start_training(config, tmp_path / "run").wait() in (0, 3)
    assert_same_run(whole, tmp_path / "run")
