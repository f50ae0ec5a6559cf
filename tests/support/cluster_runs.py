"""Small runs for tests of engines, and the processes that train them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lamina.config import to_toml
from lamina.run_folder.folder import RunFolder
from lamina.studies.papers.trained_models import model_run
from lamina.studies.shared_runs.data_sets import open_data


def prepared_run(path: Path, steps: int) -> Path:
    """A run folder with the config of a tiny model that saves every 10 steps."""
    store = open_data("iwslt", "micro", path.parent / "data")
    train = {"steps": steps, "save_every": 10, "validate_every": steps}
    config = model_run("micro", "iwslt", scheme="pre-ln", depth="6-6", train=train).config(1, str(store.folder))
    with RunFolder(path).claim() as claimed:
        claimed.store_config(to_toml(config.resolved(store)))
    return path


def wait_for_checkpoint(run: Path) -> int:
    """Wait until the run has a checkpoint; returns the process that trains it."""
    for _ in range(1200):
        if RunFolder(run).list_checkpoints():
            for process in Path("/proc").glob("[0-9]*"):
                if _trains(process, run):
                    return int(process.name)
        time.sleep(0.1)
    pytest.fail(f"{run}: no checkpoint was saved; {RunFolder(run).log.read_text()}")


def parent_of(process: int) -> int:
    """The process that started another one."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def has_ended(process: int) -> bool:
    """Whether a process has ended, also where nobody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _trains(process: Path, run: Path) -> bool:
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile
        return False
    return b"lamina.studies.worker" in arguments and str(run).encode() in arguments
