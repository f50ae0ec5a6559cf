"""Runs side by side: trained once, used again, moved aside when outdated, and resumed after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.errors import UserError
from lamina.studies.cells import make_cells
from lamina.studies.compare import Sharing, compare, share_machine
from lamina.studies.worker import read_cost
from lamina.train.run_folder import RunFolder
from processes import heed_interrupts, limit_files

CONFIG = """
[data]
store = "{store}"
max_tokens = 150
oversize = "alone"
[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 1
[schedule]
name = "constant"
learning_rate = 1e-3
[train]
steps = 4
save_every = 2
validate_every = 2
log_every = 1
samples = 0
"""
TWO = Sharing(workers=2, threads=1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(tmp_path / "toy"), tokenizer={"size": 400}, **sets))
    file = tmp_path / "small.toml"
    file.write_text(CONFIG.format(store=tmp_path / "toy"))
    return file


def losses(path: Path) -> list[float]:
    return [line["loss"] for line in RunFolder(path).metrics.read() if "loss" in line]


@pytest.mark.slow
def test_trained_once_then_used_again_and_moved_aside_when_outdated(config: Path, tmp_path: Path) -> None:
    cells = make_cells(config, [], ["post-ln", "b2t"])
    paths = compare(cells, tmp_path / "runs", TWO)
    assert list(paths) == ["post-ln-1-seed1", "b2t-1-seed1"]
    first = {name: losses(path) for name, path in paths.items()}
    assert all(len(values) == 4 for values in first.values())
    assert first["post-ln-1-seed1"] != first["b2t-1-seed1"]
    seconds, memory = read_cost(paths["b2t-1-seed1"])
    assert seconds > 0
    assert memory > 50 * 2**20

    stamps = {path: (path / "status.json").stat().st_mtime_ns for path in paths.values()}
    compare(cells, tmp_path / "runs", TWO)
    assert stamps == {path: (path / "status.json").stat().st_mtime_ns for path in paths.values()}

    compare(make_cells(config, ["schedule.learning_rate=2e-3"], ["b2t"]), tmp_path / "runs", TWO)
    former = tmp_path / "runs" / "b2t-1-seed1.former1"
    assert losses(former) == first["b2t-1-seed1"]
    assert losses(paths["b2t-1-seed1"])[1:] != first["b2t-1-seed1"][1:]


def test_a_worker_that_breaks_off_is_named_with_its_last_words(config: Path, tmp_path: Path) -> None:
    cells = make_cells(config, ["train.device=cuda"], ["b2t"])
    with pytest.raises(UserError, match=r"b2t-1-seed1 broke off: lamina: .*no GPU"):
        compare(cells, tmp_path / "runs", TWO)


def test_memory_limits_the_workers(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = make_cells(config, [], ["b2t", "post-ln", "pre-ln"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert share_machine(cells, tmp_path / "runs") == Sharing(workers=3, threads=2)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__)  # 1 GiB
    assert share_machine(cells, tmp_path / "runs") == Sharing(workers=1, threads=8)


@pytest.mark.faults
def test_interrupted_it_keeps_what_is_done_and_goes_on(config: Path, tmp_path: Path) -> None:
    words = ["train.steps=200", "train.save_every=50", "train.validate_every=100", "train.threads=1"]
    whole = compare(make_cells(config, words, ["b2t"]), tmp_path / "whole", TWO)
    command = [sys.executable, "-m", "lamina.cli", "compare", str(config), *words, "--residual", "b2t"]
    command += ["--folder", str(tmp_path / "runs")]
    run = tmp_path / "runs" / "b2t-1-seed1"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    while len(losses(run)) < 20:
        assert process.poll() is None, process.stderr
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    stopped = RunFolder(run).status()
    assert stopped is not None
    assert stopped.state == "stopped"
    assert stopped.step < 200
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert losses(run) == losses(whole["b2t-1-seed1"])
    assert json.loads((run / "cost.json").read_bytes())["seconds"] > 0


@pytest.mark.faults
def test_without_space_it_says_so_and_goes_on_when_there_is_some(config: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: checkpoints do not fit, small files do."""
    command = [sys.executable, "-m", "lamina", "compare", str(config), "--residual", "b2t,post-ln"]
    command += ["--folder", str(tmp_path / "runs")]
    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: limit_files(40_000))
    assert full.returncode == 2
    assert "broke off (and 1 more): lamina: " in full.stderr
    assert "File too large" in full.stderr
    assert "resume the run" in full.stderr
    assert "Traceback" not in full.stderr
    assert subprocess.run(command, capture_output=True).returncode == 0
    ends = [RunFolder(path).status() for path in (tmp_path / "runs").glob("*-seed1")]
    assert [status.step for status in ends if status] == [4, 4]
