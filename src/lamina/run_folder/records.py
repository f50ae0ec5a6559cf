"""The JSON files of a run folder that hold one record: cost, failure, dependencies of results, the order of a study.

`observations.json` holds a list of records whose class belongs to `diagnosis`; its format is defined here as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.hashes import Damaged, seal_json, unseal_json
from lamina.options import Options

Record = TypeVar("Record", bound=BaseModel)


class RecordFile(Generic[Record]):
    """A file that holds one record and its own hash."""

    def __init__(self, path: Path, kind: type[Record]) -> None:
        self.path, self.kind = path, kind

    def read(self) -> Record | None:
        """The record; None if the file is missing, damaged, or holds something else."""
        try:
            return self.kind.model_validate_json(unseal_json(self.path, self.path.read_bytes()))
        except (OSError, ValidationError, Damaged):
            return None

    def write(self, record: Record) -> None:
        write_file(self.path, seal_json(record.model_dump_json(indent=1).encode()))


class Cost(Options):
    """What a run of a comparison took, over all attempts."""

    seconds: float = 0.0
    memory: int = 0
    """The largest resident memory, in bytes."""


class Failure(Options):
    """The step whose loss or gradient was not finite."""

    step: int
    epoch: int
    batch: int
    """The index of the batch in its epoch."""
    examples: tuple[int, ...]
    """The indices of the examples of the batch."""
    loss: str
    """The loss as text, because JSON has neither NaN nor infinities."""
    gradient_norm: str
    first_bad: str
    """The first module whose output or gradient was not finite."""


class Fingerprint(Options):
    """Everything that the results of a run depend on."""

    config: dict[str, Any]
    """Every value that affects results, with the preset's in place of its name."""
    data: str
    """The hash of the store's manifest, which holds the hashes of all its files."""
    started_from: str = ""
    """The hash of the weights that the run starts from; empty if it is initialised at random."""
    versions: dict[str, int]
    """The result versions, by component: `shared path`, `scheme b2t`, `task translation`."""


class DiagnosisFingerprint(Options):
    """Everything else that the diagnoses of a run depend on."""

    version: int
    """The result version of the measures and checks."""
    thresholds: dict[str, Any]
    extent: dict[str, Any]
    """The numbers of seeds, batches and tokens, the checkpoint, and the depths."""
    measures: list[str]
    checks: list[str]


class StudyOrder(Options):
    """What a study orders of a run, besides its config."""

    key: str
    """The key under which its numbers are kept."""
    data: str
    """The name of its data set."""
    values: dict[str, Any]
    """The values of the config that the study declares."""
    studies: list[str]
    """The studies that measure the trained model."""


class TrialRecord(Options):
    """A short run of an advice: how far it is to be trained, and what it has shown so far."""

    until: int
    """The step at which it stops and is measured; it can be continued to a later one."""
    losses: dict[int, float] = {}
    """The validation loss (negative log-likelihood) at every step at which it stopped."""
    seconds: float = 0.0
    """Its time over all attempts: of the processor, or by the clock where a GPU trains it."""
    seconds_per_step: float = 0.0
    """The mean time of an update in the last attempt, without its first."""


class ObservationsFile:
    """`observations.json`: the observations of a watch, with the version of their class."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, version: int, observations: Sequence[BaseModel]) -> None:
        listed = ",".join(each.model_dump_json() for each in observations)
        write_file(self.path, seal_json(f'{{"version":{version},"observations":[{listed}]}}'.encode()))

    def read(self, version: int, kind: type[Record]) -> list[Record]:
        """The observations; none where there is no file. A `UserError` says why a file cannot be read."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return []
        left_out = "the steps watched before are left out"
        try:
            content = json.loads(unseal_json(self.path, raw))
            found, observations = content["version"], content.get("observations")
        except Damaged as error:
            raise UserError(f"{error} The steps watched before are left out.") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{self.path}: not a file of observations; {left_out}") from error
        if found != version:
            raise UserError(
                f"{self.path}: observations in format {found}, but this version of Lamina reads format {version}; "
                f"{left_out}"
            )
        try:
            return [kind.model_validate(each) for each in observations]
        except (ValidationError, TypeError) as error:
            raise UserError(f"{self.path}: damaged; {left_out}") from error
