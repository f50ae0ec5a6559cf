"""The origin of a checkpoint: the run that wrote it and the config it was trained with, sealed with its counters.

The origin reveals a config that was edited or truncated in the run folder, and a checkpoint of another run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lamina.errors import UserError
from lamina.options import Affects, Options, result_values
from lamina.run_folder.checkpoints import COUNTERS, ORIGIN
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.seal import DamagedCheckpoint, check
from lamina.run_folder.starting_point import StartingPoint
from lamina.runs.changes import differences, list_differences
from lamina.training.config import RunConfig


class Origin(Options):
    """The run that wrote a checkpoint, and its config."""

    run: str
    """The identity of the run, as in its status."""
    config: dict[str, Any]
    """The resolved values that affect results."""
    started_from: str = ""
    """The hash of the weights that the run was started from; empty if it was initialised at random."""

    @classmethod
    def of(cls, folder: RunFolder) -> Origin:
        """The origin of the checkpoints that are written from now on."""
        status = folder.status()
        assert status is not None
        stored = RunConfig.read_stored(folder.config)  # as it will be read again
        start = StartingPoint.load(folder.started_from)
        return cls(
            run=status.run,
            config=result_values(stored, Affects.RESULTS),
            started_from=start.sha256 if start else "",
        )


def read_origin(checkpoint: Path) -> Origin | None:
    """The origin of a checkpoint; None if it is damaged, or was written before origins were."""
    try:
        check(checkpoint, (COUNTERS,))
        return Origin.model_validate(json.loads((checkpoint / COUNTERS).read_bytes())[ORIGIN])
    except (DamagedCheckpoint, ValidationError, OSError, ValueError, KeyError, TypeError):
        return None


def check_origins(folder: RunFolder, config: RunConfig) -> None:
    """Refuse a run folder with a checkpoint of another run, or with a config that none of its checkpoints has.

    After a run was continued with another config by `--force`, its older checkpoints have the former one.
    """
    status = folder.status()
    own = status.run if status else ""
    origins = {path: origin for path in folder.list_checkpoints() if (origin := read_origin(path)) is not None}
    for path, origin in origins.items():
        if own and origin.run != own:
            raise UserError(
                f"{path}: this checkpoint was written by another run than {folder.status_file} says; move it away"
            )
    values = result_values(config, Affects.RESULTS)
    changed = ""
    for origin in origins.values():
        # A key that is not sealed was added by a later version.
        changed = list_differences(
            each for each in differences(origin.config, values, RunConfig) if not _is_new(origin.config, each[0])
        )
        if not changed:
            return
    if changed:
        raise UserError(
            f"{folder.config}: changed since the checkpoints were written:{changed}\n"
            "Undo the change, or continue with other values by lamina train CONFIG --folder FOLDER --force"
        )


def _is_new(sealed: dict[str, Any], key: str) -> bool:
    """Whether the sealed values do not have a key."""
    value: Any = sealed
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return True
        value = value[part]
    return False
