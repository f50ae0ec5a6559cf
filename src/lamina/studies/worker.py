"""One cell of a grid as a process: `python -m lamina.studies.worker RUN --threads 1`.

It trains the run whose config is in the folder, for a comparison or for a study, and ends with the exit code of its
status. When its standard input closes, the process that started it has ended, and it saves the run and exits; with
`--alone`, for schedulers that keep no standard input open, it does not.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from lamina.config import read_values
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.terminal import say
from lamina.training.machine.bf16 import prepare_environment

POLL_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for another process to leave the run folder")
    parser.add_argument("--alone", action="store_true", help="do not end when the standard input closes")
    parser.add_argument("--no-diagnosis", action="store_true")
    arguments = parser.parse_args()
    if not arguments.alone:
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        # Until the run is there, SIGTERM ends the process: nothing is lost by that, and no blocked call keeps it alive.
        _wait_until_free(RunFolder(arguments.run), arguments.wait)
        code = _train(arguments.run, arguments.threads, diagnose=not arguments.no_diagnosis)
    except UserError as error:
        say(f"lamina: {error}", error=True)
        code = 2
    sys.exit(code)


def _train(run: Path, threads: int, *, diagnose: bool) -> int:
    prepare_environment(read_values(RunFolder(run).config))  # before torch is imported

    import torch

    from lamina.studies.cells import train_cell
    from lamina.studies.shared_runs.training import train_shared_run

    torch.set_num_threads(threads)
    if RunFolder(run).study_order.path.exists():
        return train_shared_run(run)
    return train_cell(run, diagnose=diagnose)


def _wait_until_free(folder: RunFolder, seconds: float) -> None:
    """Wait for the process of a worker that was lost: it saves the run before it ends."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            folder.claim()
        except UserError:
            time.sleep(POLL_SECONDS)
        else:
            return folder.release()
    return None


def _leave_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written; the buffered reader would hold a lock that the interpreter needs at exit
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
