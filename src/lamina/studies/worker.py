"""One cell of a grid as a process: `python -m lamina.studies.worker RUN --threads 1`.

It trains the run whose config is in the folder, for a comparison, a study or an advice, and ends with the exit code of
its status. When its standard input closes, the process that started it has ended, and it saves the run and exits; with
`--alone`, for schedulers that keep no standard input open, it does not.

Without RUN it trains one run after another: it reads the path of each from a line of its standard input, and writes the
exit code as a line of its standard output.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from lamina.config import read_values
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.terminal import say
from lamina.training.machine.bf16 import prepare_environment

POLL_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for another process to leave the run folder")
    parser.add_argument("--alone", action="store_true", help="do not end when the standard input closes")
    parser.add_argument("--no-diagnosis", action="store_true")
    arguments = parser.parse_args()
    if arguments.run is None:
        _serve(arguments.threads)
        return
    if not arguments.alone:
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    # Until the run is there, SIGTERM ends the process: nothing is lost by that, and no blocked call keeps it alive.
    _wait_until_free(RunFolder(arguments.run), arguments.wait)
    sys.exit(_attempt(arguments.run, arguments.threads, diagnose=not arguments.no_diagnosis))


def _serve(threads: int) -> None:
    """Train the runs whose paths arrive, one after another, until the standard input closes."""
    paths: SimpleQueue[Path | None] = SimpleQueue()
    codes = os.fdopen(os.dup(1), "w")
    threading.Thread(target=_receive, args=(paths,), daemon=True).start()
    while (run := paths.get()) is not None:
        with RunFolder(run).log.open("ab") as log:
            for printed in (1, 2):
                os.dup2(log.fileno(), printed)
        codes.write(f"{_attempt(run, threads, diagnose=False)}\n")
        codes.flush()


def _receive(paths: SimpleQueue[Path | None]) -> None:
    """Pass on the paths; when the standard input closes, have the present run saved and the process end."""
    waiting = b""
    while received := os.read(0, 2**16):
        *lines, waiting = (waiting + received).split(b"\n")
        for line in lines:
            paths.put(Path(os.fsdecode(line)))
    paths.put(None)
    os.kill(os.getpid(), signal.SIGTERM)


def _attempt(run: Path, threads: int, *, diagnose: bool) -> int:
    """The exit code of a run; the mistake of a user is printed."""
    try:
        return _train(run, threads, diagnose=diagnose)
    except UserError as error:
        say(f"lamina: {error}", error=True)
        return 2


def _train(run: Path, threads: int, *, diagnose: bool) -> int:
    prepare_environment(read_values(RunFolder(run).config))  # before torch is imported

    import torch

    from lamina.studies.advice.trials import train_trial
    from lamina.studies.cells import train_cell
    from lamina.studies.shared_runs.training import train_shared_run

    torch.set_num_threads(threads)
    if RunFolder(run).trial.path.exists():
        return train_trial(run)
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
