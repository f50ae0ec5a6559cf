"""The process of a run: its command, its log, and its end."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from lamina.studies.engines.process import end_worker, start_worker, worker_command


def test_the_command_names_run_and_threads(tmp_path: Path) -> None:
    command = worker_command(tmp_path / "run", 2, diagnose=False)
    assert command[-1] == "--no-diagnosis"
    assert command[command.index("--threads") + 1] == "2"
    assert str(tmp_path / "run") in command


def test_output_goes_to_the_log_and_a_process_is_ended(tmp_path: Path) -> None:
    program = "import time; print('began', flush=True); time.sleep(600)"
    process = start_worker(tmp_path / "run", (sys.executable, "-c", program))
    while "began" not in (tmp_path / "run/log.txt").read_text():
        time.sleep(0.05)
    assert end_worker(process) == -signal.SIGTERM
