"""Diagnoses that were made before, to be shown again without measuring: a JSON file's, or a watched run's."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder


def is_stored(path: Path) -> bool:
    """Whether it is a file of diagnoses: configs are TOML, runs and models are folders."""
    return path.suffix == ".json" and not path.is_dir()


def stored_diagnoses(path: Path) -> list[Diagnosis]:
    """Those of a file; of a run, what was seen while it trained; of anything else none."""
    if is_stored(path):
        return _read(path)
    seen = RunFolder(path).training_diagnosis
    return _read(seen) if seen.is_file() else []


def _read(file: Path) -> list[Diagnosis]:
    """Several models are stored as a list."""
    try:
        found = TypeAdapter(Diagnosis | list[Diagnosis]).validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    except ValidationError as error:
        raise UserError(
            f"{file}: not a diagnosis, or one of another version; those that can be shown are written by "
            "lamina diagnose --output why.json, by lamina.watch and by watched runs"
        ) from error
    return [found] if isinstance(found, Diagnosis) else found
