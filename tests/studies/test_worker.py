"""The process that trains one cell: its threads, its exit code, and its end when its parent has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lamina.studies import cells, worker


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a config; the thread that waits for the parent's end does nothing in a test."""
    (tmp_path / "config.toml").write_text("seed = 1\n")
    monkeypatch.setattr(worker, "_leave_with_parent", lambda: None)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


def test_it_trains_the_run_with_so_many_threads_and_ends_with_its_code(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[Path, int, bool]] = []

    def train_cell(path: Path, *, diagnose: bool) -> int:
        trained.append((path, torch.get_num_threads(), diagnose))
        return 3

    monkeypatch.setattr(cells, "train_cell", train_cell)
    for options in (["--threads", "2"], ["--no-diagnosis"]):
        monkeypatch.setattr(sys, "argv", ["worker", str(run), *options])
        with pytest.raises(SystemExit) as ended:
            worker.main()
        assert ended.value.code == 3
    assert trained == [(run, 2, True), (run, 1, False)]


def test_a_mistake_of_the_user_is_said_and_ends_with_code_2(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "config.toml").write_text("seed =\n")
    monkeypatch.setattr(sys, "argv", ["worker", str(run)])
    with pytest.raises(SystemExit) as ended:
        worker.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("lamina: ")
    assert "config.toml" in said


def test_it_is_asked_to_save_and_stop_when_standard_input_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    waited: list[int] = []

    def read(file: int, size: int) -> bytes:
        assert not sent, "no signal before the end of standard input"
        waited.append(file)
        return b""

    monkeypatch.setattr(worker.os, "read", read)
    monkeypatch.setattr(worker.os, "kill", lambda *given: sent.append(given))
    worker._leave_with_parent()
    assert waited == [0]
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_without_a_run_it_trains_those_whose_paths_arrive(tmp_path: Path) -> None:
    """A folder without a config is a mistake, said in the log of that run; the next run is trained all the same."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "lamina.studies.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for name in ("one", "two"):
        process.stdin.write(f"{tmp_path / name}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() == b"2\n"
        assert "config.toml" in (tmp_path / name / "log.txt").read_text()
    process.stdin.close()
    assert process.wait(60) == -signal.SIGTERM, "it waited for another run"
    process.stdout.close()
