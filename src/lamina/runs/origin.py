"""The origin of a checkpoint: its run, and the config and data it was trained with, sealed with its counters.

The origin reveals a config that was edited or truncated in the run folder, a manifest or a tokenizer of other data, and
a checkpoint of another run.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
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
    data: str = ""
    """The hash of the data, as in the run's manifest; empty if an earlier version wrote the checkpoint."""
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
            data=_data_hash(folder),
            started_from=start.sha256 if start else "",
        )


def read_origin(checkpoint: Path) -> Origin | None:
    """The origin of a checkpoint; None if it is damaged, with a warning, or was written before origins were."""
    try:
        check(checkpoint, (COUNTERS,))
        return Origin.model_validate(json.loads((checkpoint / COUNTERS).read_bytes())[ORIGIN])
    except DamagedCheckpoint as damage:
        if checkpoint.exists():  # else the process that trains has removed it
            warnings.warn(f"{damage} It is not compared with the run.", stacklevel=3)
        return None
    except (ValidationError, OSError, ValueError, KeyError, TypeError):
        return None


def read_origins(folder: RunFolder) -> dict[Path, Origin]:
    """The origins of all checkpoints that have one."""
    return {path: origin for path in folder.list_checkpoints() if (origin := read_origin(path)) is not None}


def known_identity(folder: RunFolder) -> str:
    """The identity of a run: in its status, else in its latest checkpoint; empty if neither has one."""
    if status := folder.status():
        return status.run
    return next((origin.run for origin in reversed(read_origins(folder).values())), "")


def check_origins(folder: RunFolder, config: RunConfig) -> None:
    """Refuse a run folder with a checkpoint of another run, or with a config or data that none of its checkpoints has.

    After a run was continued with another config by `--force`, its older checkpoints have the former one.
    """
    origins = read_origins(folder)
    if not origins:
        return
    _refuse_other_runs(folder, origins)
    own = _data_hash(folder)
    if all(origin.data not in ("", own) for origin in origins.values()):
        raise UserError(
            f"{folder.data_manifest}: describes other data than the checkpoints were trained on; copy it and the "
            "tokenizers again from the store that the run was trained on"
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
    raise UserError(
        f"{folder.config}: changed since the checkpoints were written:{changed}\n"
        "Undo the change, or continue with other values by lamina train CONFIG --folder FOLDER --force"
    )


def _refuse_other_runs(folder: RunFolder, origins: Mapping[Path, Origin]) -> None:
    """Refuse checkpoints that are not of this run; without a status, those that are of several runs."""
    status = folder.status()
    if status is None:
        warnings.warn(
            f"{folder.status_file}: missing, so the checkpoints are compared only with each other; lamina train "
            f"{folder.path} writes it again",
            stacklevel=4,
        )
        own, where = list(origins.values())[-1].run, "the latest one"
    else:
        own, where = status.run, f"{folder.status_file} says"
    for path, origin in origins.items():
        if own and origin.run != own:
            raise UserError(f"{path}: this checkpoint was written by another run than {where}; move it away")


def _data_hash(folder: RunFolder) -> str:
    """The hash of the data that the run's own manifest describes."""
    return folder.data_copy(lambda: folder.path).manifest.content_hash


def _is_new(sealed: dict[str, Any], key: str) -> bool:
    """Whether the sealed values do not have a key."""
    value: Any = sealed
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return True
        value = value[part]
    return False
