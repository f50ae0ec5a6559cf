"""Diagnoses that were made before, to be shown again without measuring: a JSON file's, or a watched run's."""

from __future__ import annotations

from pathlib import Path

from lamina.diagnosis.results import Diagnosis, read_diagnoses
from lamina.run_folder.folder import RunFolder


def is_stored(path: Path) -> bool:
    """Whether it is a file of diagnoses: configs are TOML, runs and models are folders."""
    return path.suffix == ".json" and not path.is_dir()


def stored_diagnoses(path: Path) -> list[Diagnosis]:
    """Those of a file; of a run, what was seen while it trained; of anything else none."""
    if is_stored(path):
        return read_diagnoses(path)
    seen = RunFolder(path).training_diagnosis
    return read_diagnoses(seen) if seen.is_file() else []
