"""A run that is killed again and again ends with the weights of one that was never interrupted."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.run_folder.folder import RunFolder
from lamina.training.checkpoint import storage as checkpoint

KILLS = 20
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 11))]  # 200 kills at night
SMALL = Path(__file__).parents[1] / "support" / "small.toml"
CONFIG = """
extends = "{small}"
[data]
store = "{store}"
[model]
residual = "admin"
[schedule]
name = "constant"
[train]
steps = 120
save_every = 1
validate_every = 0
threads = 1
"""


NURSERY = """
import os, sys
import tokenizers, torch, torch._dynamo  # all that a run imports on its way: once, and then each run is forked
from lamina.runs.run import Run, read_config

torch.set_num_threads(1)
for line in sys.stdin:
    config, folder = line.split()
    child = os.fork()
    if child == 0:
        try:
            Run(read_config(config), folder).train(quiet=True)
            os._exit(0)
        finally:
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Starts runs in separate processes, one at a time, without importing torch again for each."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", NURSERY]
        # Unbuffered, so that what the pipe holds is what was not yet read.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def start(self, config: Path, folder: Path) -> int:
        """The process that runs."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{config} {folder}\n".encode())
        return self._answer()

    def is_busy(self) -> bool:
        return not select.select([self._process.stdout], [], [], 0)[0]

    def wait(self) -> int:
        """The exit code of the process that was started."""
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(folder / "toy"), tokenizer={"size": 400}, **sets))
    (folder / "small.toml").write_text(CONFIG.format(small=SMALL, store=folder / "toy"))
    return folder / "small.toml"


@pytest.fixture(scope="module")
def whole(config: Path, nursery: Nursery) -> Path:
    """A run that is never interrupted."""
    nursery.start(config, config.parent / "whole")
    assert nursery.wait() == 0
    return config.parent / "whole"


def start(config: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lamina", "train", str(config), "--folder", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def last_step(folder: Path) -> int:
    saved = checkpoint.list_checkpoints(folder / "checkpoints")
    return int(saved[-1].name.removeprefix("step-").removesuffix(".replaced")) if saved else 0


def wait_for_step(folder: Path, step: int, alive: Callable[[], bool]) -> None:
    """Until the run has saved that step, or has ended."""
    while last_step(folder) < step and alive():
        time.sleep(0.001)


def wait_for_save(folder: Path, alive: Callable[[], bool]) -> None:
    """Until a checkpoint is being written, or the run has ended."""
    while not list((folder / "checkpoints").glob(".step-*.partial")) and alive():
        time.sleep(0.0002)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_twenty_times(seed: int, config: Path, whole: Path, nursery: Nursery, tmp_path: Path) -> None:
    """Every other kill happens during a save; the run must stay usable and end with the same weights."""
    folder, chance = tmp_path / "killed", random.Random(seed)
    kills = amid = 0
    while kills < KILLS or amid < KILLS // 2:
        process = nursery.start(config, folder)
        wait_for_step(folder, last_step(folder) + chance.randrange(4), nursery.is_busy)
        if kills % 2:
            wait_for_save(folder, nursery.is_busy)
            time.sleep(chance.random() * 0.002)
        else:
            time.sleep(chance.random() * 0.03)
        assert nursery.is_busy(), "the run ended before it could be killed"
        os.kill(process, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL, "the run ended before it was killed"
        kills += 1
        amid += bool(list((folder / "checkpoints").glob(".step-*")))
        status = RunFolder(folder).status()
        assert status is None or status.state == "running"
    nursery.start(config, folder)
    assert nursery.wait() == 0

    one, other = (checkpoint.load_model(each / "checkpoints" / "latest") for each in (whole, folder))
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
    first, second = (
        [line["loss"] for line in RunFolder(each).metrics.read() if "loss" in line] for each in (whole, folder)
    )
    assert first == second


@pytest.fixture
def endless(config: Path, tmp_path: Path) -> Path:
    """A run that lasts longer than any test waits for it."""
    text = config.read_text().replace("steps = 120\nsave_every = 1\n", "steps = 100_000\nsave_every = 5\n")
    (tmp_path / "endless.toml").write_text(text)
    return tmp_path / "endless.toml"


@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGHUP, 75), (signal.SIGINT, 130)]
)
def test_a_signal_saves_and_only_ctrl_c_asks_not_to_be_started_again(
    number: signal.Signals, code: int, endless: Path, tmp_path: Path
) -> None:
    process = start(endless, tmp_path / "run")
    wait_for_step(tmp_path / "run", 10, lambda: process.poll() is None)
    process.send_signal(number)
    shown, said = process.communicate()
    assert process.returncode == code
    assert f"{number.name}: stopping when this step is done and saved" in said
    assert "run: stopped at step" in shown
    status = RunFolder(tmp_path / "run").status()
    assert status is not None
    assert (status.state, status.reason) == ("stopped", number.name)
    saved = checkpoint.list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert saved.name == f"step-{status.step:08d}"


@pytest.mark.faults
def test_a_second_process_is_refused(endless: Path, tmp_path: Path) -> None:
    first = start(endless, tmp_path / "run")
    wait_for_step(tmp_path / "run", 1, lambda: first.poll() is None)
    second = start(endless, tmp_path / "run")
    _, error = second.communicate()
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert str(first.pid) in error
