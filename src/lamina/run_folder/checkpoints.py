"""The names inside `checkpoints/`: one folder for each step, two links, and the files of a checkpoint.

    step-00001000/
      model.safetensors
      optimiser.safetensors   state.<parameter>.<key>
      optimiser.json          the optimiser's class, and state that is no tensor
      random.safetensors      torch's random state
      counters.json           state of the loop: step, epoch, best metric …
      manifest.json           size and hash of every file
    latest -> step-00001000
    best -> step-00000500

If the model is sharded over several processes, folders `model/` and `optimiser/`, with a shard from every process,
replace the first two files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MODEL, OPTIMISER, RANDOM = "model.safetensors", "optimiser.safetensors", "random.safetensors"
OPTIMISER_FACTS, COUNTERS = "optimiser.json", "counters.json"
FILES = (MODEL, OPTIMISER, OPTIMISER_FACTS, RANDOM, COUNTERS)
MANIFEST = "manifest.json"
ORIGIN = "origin"
"""The key of `counters.json` that holds the identity of the run and its config."""

LATEST, BEST = "latest", "best"
AVERAGE = "average"
"""The folder of the average of several checkpoints, next to `checkpoints/`."""

REPLACED = ".replaced"
"""The suffix of a checkpoint while it is being replaced by another one of the same step."""


PROBE = ".probe-{token}"
"""A file by which processes find out whether they see the same folder; it is removed at once."""


def name_step(step: int) -> str:
    """The name of the checkpoint of a step: `step-00001000`."""
    return f"step-{step:08d}"


def step_of(checkpoint: Path) -> int:
    """The step of a checkpoint, also of a link to one."""
    return int(checkpoint.resolve().name.removeprefix("step-"))


def finished_checkpoints(folder: Path) -> Iterator[tuple[int, bool, Path]]:
    """Step and path of every finished checkpoint, and whether it is in place rather than being replaced."""
    for path in folder.glob("step-*"):
        if found := re.fullmatch(rf"step-(\d{{8,}})({re.escape(REPLACED)})?", path.name):
            yield int(found[1]), found[2] is None, path


def unfinished_checkpoints(folder: Path) -> Iterator[Path]:
    """Incomplete checkpoints, left by a process that was killed while saving."""
    return folder.glob(".step-*")


def list_checkpoints(folder: Path) -> list[Path]:
    """All finished checkpoints, oldest first, one for each step."""
    return list({step: path for step, _, path in sorted(finished_checkpoints(folder))}.values())
