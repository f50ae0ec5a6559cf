"""One run of a comparison, as a process: `python -m lamina.studies.worker RUN --threads 1`.

Trains the run whose config is in the folder, from the start or from where it was, writes down what it took, and
diagnoses the model as it was at the start and as it is at the end. It ends, having saved, when its standard input
closes: whoever started it is gone.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import UserError
from lamina.files.atomic import write_file

if TYPE_CHECKING:
    from lamina.runs.diagnose import Extent
    from lamina.training.config import RunConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        _work(given.run, given.threads)
    except UserError as error:
        sys.exit(f"lamina: {error}")


def command(run: Path, threads: int) -> tuple[str, ...]:
    """What starts it."""
    return (sys.executable, "-m", "lamina.studies.worker", str(run), "--threads", str(threads))


def is_done(run: Path, config: RunConfig) -> bool:
    """Whether a run has ended and was diagnosed as it would be now."""
    from lamina.run_folder.folder import RunFolder
    from lamina.studies.reuse import diagnosis_fingerprint

    file = RunFolder(run).diagnosed
    return _has_ended(run) and file.is_file() and file.read_text() == diagnosis_fingerprint(config, _extent())


def _has_ended(run: Path) -> bool:
    from lamina.run_folder.folder import RunFolder

    status = RunFolder(run).status()
    return status is not None and status.has_ended


def _work(run: Path, threads: int) -> None:
    from lamina.config import read_values
    from lamina.run_folder.folder import RunFolder
    from lamina.training.bf16 import prepare_environment

    prepare_environment(read_values(RunFolder(run).config))  # before torch

    import torch

    from lamina.run_folder.folder import RunFolder
    from lamina.runs.run import Run
    from lamina.studies.reuse import diagnosis_fingerprint

    torch.set_num_threads(threads)
    trained = Run(run)
    diagnosing = diagnosis_fingerprint(trained.config, _extent())  # of the code as it is now, before hours of training
    if not _has_ended(run):
        began = time.perf_counter()
        try:
            trained.train()
        finally:
            with suppress(UserError):  # what training has to say matters more
                _add_cost(run, time.perf_counter() - began)
    if _has_ended(run):
        _diagnose(run)
        write_file(RunFolder(run).diagnosed, diagnosing.encode())


def _diagnose(run: Path) -> None:
    """A model that cannot be measured, for its weights are not finite any more, is no reason to break off."""
    from lamina.runs.run import Run

    try:
        list(Run(run).diagnose(_extent()))
    except UserError as error:
        print(f"no diagnosis: {error}", file=sys.stderr)


def _extent() -> Extent:
    from lamina.runs.diagnose import Extent

    return Extent(seeds=2, batches=4, checkpoint="latest", depths=False)


def _add_cost(run: Path, seconds: float) -> None:
    from lamina.run_folder.folder import RunFolder

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    RunFolder(run).add_cost(seconds, peak)


def _leave_with_parent() -> None:
    os.read(0, 1)  # nothing ever comes; the buffered reader would hold a lock that the interpreter wants at its end
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
