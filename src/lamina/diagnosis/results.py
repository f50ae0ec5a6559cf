"""A diagnosis as typed values: measurements, what was not measured, and findings with their remedies.

`diagnosis/*.json` of a run folder holds diagnoses; every page is made from them alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from lamina.diagnosis.measurement import Location, Measurement, MissingEvidence, NotMeasured, Stage, TypedResult
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.hashes import Damaged, seal_json, unseal_json

VERSION: Literal[2] = 2

Severity = Literal["failure", "warning", "fine", "not measured"]


class Setting(TypedResult):
    """A remedy: a key of the config with the value it should have."""

    kind: Literal["setting"] = "setting"
    key: str
    """The key, such as `schedule.learning_rate`."""
    relation: Literal["=", "<", ">"] = "="
    value: float | int | str | bool | tuple[float, ...]
    """The value, or the bound that the relation names."""


class SchemeTrait(TypedResult):
    """A remedy: a residual scheme that avoids the fault."""

    kind: Literal["scheme"] = "scheme"
    avoids: str
    """The fault, as in `Residual.avoids`."""
    schemes: tuple[str, ...]
    """The schemes that have this trait and are not in use."""


class Action(TypedResult):
    """A remedy that is neither a setting nor a scheme, in words."""

    kind: Literal["action"] = "action"
    text: str


class Code(TypedResult):
    """A remedy that is a line of Python."""

    kind: Literal["code"] = "code"
    line: str
    words: str = ""
    """What the line does and where it belongs, where the line does not say it."""


Remedy = Annotated[Setting | SchemeTrait | Action | Code, Field(discriminator="kind")]


class ModelFacts(TypedResult):
    """What a model is, as far as it could be found out."""

    layers: dict[str, int] = {}
    """The number of layers of every stack."""
    placements: dict[str, Literal["post", "pre", "both", "none"] | None] = {}
    """The position of the norms in every stack; None if it is unknown."""
    width: int | None = None
    """The numbers of one position of the stream."""
    parameters: int = 0
    trained: int = 0
    """The number of parameters that are not frozen."""
    batch: tuple[int, ...] = ()
    """The shape of the first batch in the stream, without the width."""


class Finding(TypedResult):
    """The result of a check at one location, with its evidence."""

    check: str
    """The key of the check: `vanishing`."""
    severity: Severity
    sentence: str
    """The finding in words, with value and threshold, or the reason why nothing could be checked."""
    location: Location = Location()
    value: float | None = None
    threshold: float | None = None
    spread: float | None = None
    """The standard deviation of the value over seeds or batches, where there are several."""
    remedies: tuple[Remedy, ...] = ()


def _encodable(text: str) -> str:
    """Replace characters that UTF-8 cannot encode, which names of files may contain, by question marks."""
    return text.encode("utf-8", errors="replace").decode()


class Diagnosis(TypedResult):
    """Everything that was measured and found of one model."""

    version: Literal[2] = VERSION
    name: Annotated[str, AfterValidator(_encodable)]
    """The name of the config, run or class that was examined."""
    model: str
    """The model in a line: `18-18 encoder-decoder, width 64, post-ln`."""
    schemes: tuple[str, ...] = ()
    """The schemes of its stacks; empty for a foreign module."""
    output_stack: str | None = None
    """The stack from which the loss is computed; None where it is unknown."""
    facts: ModelFacts | None = None
    """None in files of earlier versions."""
    stage: Stage
    spread_over: Literal["seeds", "batches", "steps"] = "seeds"
    """`steps` where a model was watched in training: its series run over steps."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """The number of seeds, batches or watched steps."""
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    not_measured: tuple[NotMeasured, ...] = ()
    notes: tuple[str, ...] = ()
    """Anything else a reader should know: layers found by structure, a loss that was not given."""

    def __getitem__(self, key: str) -> Measurement:
        """The measurement of that key; one that was not taken raises a `UserError` with the reason."""
        for measurement in self.measurements:
            if measurement.key == key:
                return measurement
        for missing in self.not_measured:
            if missing.key == key:
                raise UserError(f"{key} was not measured: {missing.reason}")
        raise UserError(f"{key} was not measured; there are: {', '.join(each.key for each in self.measurements)}")

    @property
    def lacks(self) -> set[MissingEvidence]:
        """The evidence that a measure lacked: `passes` if training was only watched, `training` if it was not."""
        return {lacking for each in self.not_measured for lacking in each.lacks}

    def write(self, file: Path) -> None:
        """Write a file that contains its own hash."""
        write_file(file, seal_json(self.model_dump_json(indent=1).encode()))

    @classmethod
    def read(cls, file: Path) -> Diagnosis:
        """The diagnosis of a file that holds one."""
        found = read_diagnoses(file)
        if len(found) != 1:
            raise UserError(f"{file}: holds {len(found)} diagnoses, not one")
        return found[0]


class NoDiagnosis(UserError):
    """A file that holds something else than diagnoses."""


def read_diagnoses(file: Path) -> list[Diagnosis]:
    """The diagnoses of a JSON file: one, or a list of several. `NoDiagnosis` where it holds something else."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    try:
        raw = unseal_json(file, raw)
        found = TypeAdapter(Diagnosis | list[Diagnosis]).validate_json(raw)
    except Damaged as error:
        raise UserError(f"{error} Make it again with lamina diagnose.") from error
    except ValidationError as error:
        raise _explain(file, raw) from error
    return [found] if isinstance(found, Diagnosis) else found


def _explain(file: Path, raw: bytes) -> UserError:
    """Why a file could not be read as diagnoses."""
    try:
        content = json.loads(raw)
        first = content[0] if isinstance(content, list) else content
        version = first["version"]
        is_diagnosis = "name" in first
    except (ValueError, LookupError, TypeError):
        is_diagnosis = False
    if not is_diagnosis:
        return NoDiagnosis(f"{file}: not a diagnosis; lamina diagnose --output why.json writes one")
    if version != VERSION:
        return UserError(
            f"{file}: a diagnosis in format {version}, but this version of Lamina reads format {VERSION}: make it "
            "again with lamina diagnose"
        )
    return UserError(f"{file}: a damaged diagnosis; make it again with lamina diagnose")
