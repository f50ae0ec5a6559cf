"""bf16 on machines that announce it and kill processes that use it; another probe command simulates the crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lamina.config import to_toml
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.training.machine import bf16
from support.small_runs import building, config_for

HELPED = "import os, signal; os.environ.get('ONEDNN_MAX_CPU_ISA') or os.kill(os.getpid(), signal.SIGILL)"
HELPLESS = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture(autouse=True)
def _announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that announces AMX, and an environment without a limit."""
    monkeypatch.delenv(bf16.VARIABLE, raising=False)
    monkeypatch.setattr(bf16, "CPU_INFO", tmp_path / "cpuinfo")
    announce(tmp_path, "fpu amx_bf16 amx_tile avx512f")
    bf16.probe.cache_clear()
    yield
    bf16.probe.cache_clear()  # otherwise later tests of this process get the answer of these programs


def announce(folder: Path, flags: str) -> None:
    (folder / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")


def probe_by(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16, "PROBE", (sys.executable, "-c", program))


def forget_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")


def test_where_the_probe_is_killed_one_dnn_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_by(HELPED, monkeypatch)
    forget_torch(monkeypatch)
    bf16.make_bf16_safe()
    assert os.environ[bf16.VARIABLE] == bf16.LIMIT
    probe_by(HELPLESS, monkeypatch)
    bf16.make_bf16_safe()  # with the limit nothing is probed again


def test_where_torch_is_imported_already_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_by(HELPED, monkeypatch)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(UserError, match=r"killed \(SIGILL\); set ONEDNN_MAX_CPU_ISA=AVX512_CORE .*or use fp32$"):
        bf16.make_bf16_safe()
    assert bf16.VARIABLE not in os.environ


def test_where_the_limit_does_not_help_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_by(HELPLESS, monkeypatch)
    forget_torch(monkeypatch)
    with pytest.raises(UserError, match=r"killed \(SIGILL\); use fp32$"):
        bf16.make_bf16_safe()
    assert bf16.VARIABLE not in os.environ


def test_nothing_is_limited_where_bf16_works(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_by("raise SystemExit(1)", monkeypatch)  # an error is not a crash: training will show it
    bf16.make_bf16_safe()
    assert bf16.VARIABLE not in os.environ


@pytest.mark.parametrize("flags", ["fpu avx512f", None])
def test_nothing_is_probed_where_bf16_is_not_announced(
    flags: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bf16, "PROBE", (str(tmp_path / "no-such-command"),))
    announce(tmp_path, flags) if flags else (tmp_path / "cpuinfo").unlink()
    bf16.make_bf16_safe()


@pytest.mark.parametrize(
    ("train", "probed"),
    [
        ({"precision": "bf16"}, True),
        ({"precision": "bf16", "device": "cuda:1"}, False),
        ({"precision": "fp32"}, False),
        ({}, False),
        ("steps", False),
    ],
)
def test_only_a_config_that_asks_for_bf16_on_a_cpu_is_probed(
    train: object, probed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_by(HELPED, monkeypatch)
    forget_torch(monkeypatch)
    bf16.prepare_environment({"train": train})
    assert (bf16.VARIABLE in os.environ) == probed


def test_a_run_in_bf16_says_why_it_is_refused(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe_by(HELPED, monkeypatch)
    config = config_for("translation", stores, train={"precision": "bf16"})
    with pytest.raises(UserError, match=r"train.precision: this processor announces bf16"):
        building(config, RunFolder(tmp_path / "unused"))


PLAYED = """
import os, sys
from pathlib import Path
from lamina.training.machine import bf16
bf16.CPU_INFO, bf16.PROBE = Path({cpu_info!r}), (sys.executable, "-c", {program!r})
{start}
"""
COMMAND = "sys.argv = ['lamina', 'train', {config!r}, '--folder', {run!r}]\nfrom lamina.cli import main\nmain()"
WORKER = "sys.argv = ['worker', {run!r}]\nfrom lamina.studies.worker import main\nmain()"


@pytest.mark.slow
@pytest.mark.parametrize("start", [COMMAND, WORKER])
def test_the_commands_limit_their_own_process(start: str, stores: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    text = to_toml(config_for("translation", stores, train={"precision": "bf16", "steps": 1}))
    for file in (tmp_path / "own.toml", run / "config.toml"):
        file.write_text(text)
    program = PLAYED.format(
        cpu_info=str(tmp_path / "cpuinfo"),
        program=HELPED,
        start=start.format(config=str(tmp_path / "own.toml"), run=str(run)),
    )
    environment = {name: value for name, value in os.environ.items() if name != bf16.VARIABLE}
    standard_input, other_end = os.pipe()  # a worker exits when the other end is closed
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, stdin=standard_input, capture_output=True, text=True)
    os.close(standard_input)
    os.close(other_end)
    assert ran.returncode == 0, ran.stderr
    assert (run / "checkpoints" / "latest").exists()
