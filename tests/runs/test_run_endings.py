"""The end of runs that cannot start or that raise an error: a status, and no leftover files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.config import to_toml
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.run_folder.checkpoints import name_step
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import REQUEUE
from lamina.runs.run import Run
from lamina.training.callbacks.base import Callback
from lamina.training.signals import Interrupts, remember_early
from support.small_runs import config_for, interrupted, lines


def test_a_store_without_validation_is_refused_before_the_first_step(stores: Path, tmp_path: Path) -> None:
    values = {"output": str(tmp_path / "data"), "format": "embedded", "train": ["translation:20"]}
    store = prepare(PrepareOptions.read(values | {"tokenizer": {"size": 400}}, where="test"))
    config = config_for("translation", stores, data={"store": str(store.folder)})
    with pytest.raises(UserError, match="no examples in the split 'valid', which training needs; .*hold_out"):
        Run(config, tmp_path / "run").train(quiet=True)
    assert not (tmp_path / "run").exists(), "a run that cannot start leaves nothing behind"


def test_a_rejected_config_leaves_files_of_others(stores: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    config = config_for("translation", stores, data={"store": str(tmp_path / "missing")})
    with pytest.raises(UserError, match="missing"):
        Run(config, tmp_path / "run").train(quiet=True)
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["notes.txt"]


class FailAt(Callback):
    """Raises an error at a step, and another one at the end."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_step(self, training: Any, values: Any) -> None:
        if training.step == 3:
            raise self.error

    def on_end(self, training: Any) -> None:
        raise UserError("the disk is full at the end, too")


@pytest.mark.parametrize("error", [UserError("the disk is full"), RuntimeError("a bug"), KeyboardInterrupt()])
def test_every_exit_sets_the_status_and_the_first_error_is_shown(
    error: BaseException, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores)
    with pytest.raises(type(error)) as raised:
        Run(config, tmp_path / "run").train(quiet=True, callbacks=[FailAt(error)])
    assert raised.value is error
    status = RunFolder(tmp_path / "run").status()
    assert status is not None
    assert (status.state, status.step, status.reason) == ("stopped", 3, str(error) or "Ctrl-C")
    assert Run(config, tmp_path / "run").train(quiet=True).step == 6, "it can be resumed"


def test_the_last_metrics_are_written_once(stores: Path, tmp_path: Path) -> None:
    """A run that was killed between its last metrics and its status measures them again."""
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 1e-2}}
    changes |= {"model": {"residual": "pre-ln", "model_dim": 32}, "data": {"max_tokens": 600}}
    config = config_for("language-modelling", stores, train={"steps": 60, "save_every": 30}, **changes)
    folder = RunFolder(tmp_path / "run")
    Run(config, folder.path).train(quiet=True)
    assert len(lines(folder.path, "final_nll")) == 1
    with folder.claim():
        folder.set_status("running", 60)
    Run(config, folder.path).train(quiet=True)
    assert len(lines(folder.path, "final_nll")) == 1


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl", "diagnosis", ".lock", "checkpoints/latest"])
def test_no_link_out_of_the_folder_is_followed(name: str, stores: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious") if "." in name else outside.mkdir()
    link = tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(UserError, match=f"{name}: a link out of the run folder"):
        Run(config_for("translation", stores), tmp_path / "run").train(quiet=True)
    assert not outside.is_file() or outside.read_text() == "precious"
    assert link.is_symlink()


def test_a_damaged_watch_history_does_not_prevent_a_resume(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, diagnose={"every": 2})
    interrupted(config, tmp_path / "run", after=4)
    folder = RunFolder(tmp_path / "run")
    write_file(folder.observations.path, b"[" * 100_000)
    assert Run(config, folder.path).train(quiet=True).step == 6


@pytest.fixture
def no_nohup() -> Iterator[None]:
    """SIGHUP ends a process, as without nohup."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.usefixtures("no_nohup")
def test_signals_before_a_run_is_built_are_handled_by_it(stores: Path, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        with remember_early():
            signal.raise_signal(number)
            status = Run(config_for("translation", stores), tmp_path / number.name).train(quiet=True)
        assert (status.state, status.step, status.signal) == ("stopped", 0, number.name)
        assert status.exit_code == REQUEUE
        assert signal.getsignal(number) == signal.SIG_DFL


def test_an_ignored_hangup_stays_ignored() -> None:
    """As nohup asks for."""
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with remember_early(), Interrupts(lambda text: None) as interrupts:
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.number == 0
    finally:
        signal.signal(signal.SIGHUP, former)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP])
@pytest.mark.usefixtures("no_nohup")
def test_the_command_handles_a_signal_from_its_start(stores: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = start_training(stores, tmp_path)
    while not catches(process, number):
        time.sleep(0.005)
    assert stop(process, number) == REQUEUE


def test_signals_are_recorded_before_slow_imports() -> None:
    slow = "{'typer', 'rich', 'pydantic', 'numpy', 'torch'}"
    program = f"import sys, lamina.__main__; sys.exit(str({slow} & {{*sys.modules}} or 0))"
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert found.stderr.strip() == "0"


@pytest.mark.faults
def test_a_signal_at_any_moment_saves_and_stops(stores: Path, tmp_path: Path) -> None:
    """Only before Python runs the first line of Lamina, in a fraction of a second, does it end the process."""
    chance = random.Random(17)
    for case in range(6):
        process = start_training(stores, tmp_path / str(case))
        time.sleep(chance.uniform(0.05, 2.0))
        caught = catches(process, signal.SIGTERM)
        code = stop(process, signal.SIGTERM)
        assert code == REQUEUE or (code == -signal.SIGTERM and not caught), f"case {case}: {code}"


def start_training(stores: Path, folder: Path) -> subprocess.Popen[bytes]:
    """A process that trains for a long time."""
    folder.mkdir(exist_ok=True)
    (folder / "own.toml").write_text(to_toml(config_for("translation", stores, train={"steps": 10**6})))
    command = [sys.executable, "-m", "lamina", "train", str(folder / "own.toml"), "--folder", str(folder / "run")]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def catches(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Whether the process has a handler of the signal."""
    caught = Path(f"/proc/{process.pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


def stop(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """The exit code of the process after a signal."""
    os.kill(process.pid, number)
    process.communicate()
    return process.returncode


def test_more_steps_of_a_linear_schedule_are_refused(stores: Path, tmp_path: Path) -> None:
    schedule = {"name": "linear", "warmup_steps": 2}
    interrupted(config_for("translation", stores, schedule=schedule), tmp_path / "run", after=4)
    with RunFolder(tmp_path / "run").claim() as folder:
        folder.store_config(to_toml(config_for("translation", stores, schedule=schedule)))
    longer = config_for("translation", stores, schedule=schedule, train={"steps": 12})
    with pytest.raises(
        UserError, match="depends on the length of training, which was train.steps = 6 and is train.steps = 12"
    ):
        Run(longer, tmp_path / "run").train(quiet=True)
    assert (tmp_path / "run" / "checkpoints" / name_step(4)).exists()
