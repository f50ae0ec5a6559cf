"""A diagnosis as typed values: what was measured, what theory predicts, what was not measured, and the findings.

These classes depend on neither models nor figures. `diagnosis/*.json` of a run folder holds them; every page is made
from them alone. Where a number belongs is said by fields (`Location`, `Stage`, `role`, `quantity`), never by a label:
text is made from these fields when a page is written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lamina.errors import UserError
from lamina.files.atomic import write_file

VERSION: Literal[2] = 2

SeriesRole = Literal["measured", "predicted", "bound"]
"""Whether a series was measured, is predicted by a theorem for this model, or is a bound from a theorem."""
Severity = Literal["failure", "warning", "fine", "not measured"]
FactName = NewType("FactName", str)
"""The name of a fact: `slope`, `R² of ln n`. A measure defines its names as constants, which checks import, so that the
type checker finds a misspelled one."""
MissingEvidence = Literal["passes", "training", "depths"]
"""Evidence that a measure lacked: passes through the model, an optimiser in training, or models of several depths."""


class TypedResult(BaseModel):
    """The base of all classes here: immutable, with infinities and NaN preserved in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Location(TypedResult):
    """The part of a model that a value belongs to. Fields that do not apply are None; numbers count from 1."""

    stack: str | None = None
    """`encoder`, `decoder`, `stack`, or the path of a foreign module that holds repeated layers."""
    layer: int | None = None
    sublayer: int | None = None
    """The number of the sub-layer in its stack."""
    sublayer_kind: str | None = None
    """`self-attention`, `cross-attention` or `feed-forward`."""
    matrix: str | None = None
    """The kind of weight matrix: `query`, `key`, `value`, `output`, `inner`, `gate`, `outer`, `embedding` …"""
    stream: str | None = None
    """The name of a further residual stream, such as ResiDual's `dual`; None for the first stream."""
    module: str | None = None
    """The path of a module or parameter in the model."""

    def __str__(self) -> str:
        """`decoder layer 3 cross-attention query`; `the model` where no field is set."""
        numbered = [("layer", self.layer), ("sub-layer", self.sublayer)]
        parts = [self.stack, *(f"{name} {number}" for name, number in numbered if number is not None)]
        parts += [self.sublayer_kind, self.matrix, self.stream and f"stream {self.stream}"]
        return " ".join(part for part in parts if part) or self.module or "the model"


class Stage(TypedResult):
    """The point in training at which values were measured."""

    name: Literal["start", "step", "end", "given"]
    """`start`: before training; `step`: after a step; `end`: after the last step; `given`: training is unknown."""
    step: int | None = None

    def __str__(self) -> str:
        match self.name:
            case "start":
                return "at the start"
            case "given":
                return "as given"
            case "end":
                return "at the end" if self.step is None else f"at the end, step {self.step:,}"
            case "step":
                return f"after {self.step:,} steps"


class Series(TypedResult):
    """One line of a figure."""

    location: Location = Location()
    quantity: str = ""
    """Which of the measure's quantities the line shows, such as `gradient` or `update`; empty for the only or main one.
    Of a prediction, what it follows from, such as `Lemma 3`."""
    role: SeriesRole = "measured"
    predicts: str = ""
    """The quantity that a prediction or bound is about; empty for the first quantity measured at its location."""
    stage: Stage | None = None
    """The stage of the series; None if it is that of the diagnosis."""
    x: tuple[float, ...]
    y: tuple[float, ...]
    """Means over seeds or over batches."""
    spread: tuple[float, ...] = ()
    """Standard deviations over seeds or batches; empty for predictions. For quantities that are not linear in the
    batches, such as the norm of a mean, the standard deviation of the jackknife's pseudo-values."""

    @property
    def identity(self) -> tuple[Location, str, SeriesRole, Stage | None]:
        """The fields that identify the same line in several samples."""
        return self.location, self.quantity, self.role, self.stage


class Grid(TypedResult):
    """A matrix drawn as a map, such as the cosines between all layers."""

    location: Location = Location()
    quantity: str = ""
    stage: Stage | None = None
    values: tuple[tuple[float, ...], ...]
    """Row by row; NaN where there is no value."""
    rows: str
    """The name of the rows: `layer`."""
    columns: str
    first_row: int = 1
    first_column: int = 1
    """The number of the first column; 0 where it stands for the embedding, before the first layer."""

    @property
    def identity(self) -> tuple[Location, str, Stage | None]:
        return self.location, self.quantity, self.stage


class Fact(TypedResult):
    """A single number: a slope, an R², a ratio."""

    name: FactName
    """`slope`, `first/last`, `R² of ln n` …; a measure lists its names in its docstring."""
    location: Location = Location()
    quantity: str = ""
    stage: Stage | None = None
    value: float
    spread: float | None = None
    """The standard deviation over seeds or batches, where there are several."""

    @property
    def identity(self) -> tuple[FactName, Location, str, Stage | None]:
        return self.name, self.location, self.quantity, self.stage


class Axes(TypedResult):
    """The axes of a measure's figure."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


class Description(TypedResult):
    """The description of a measure, with everything that a page needs to explain its values."""

    key: str
    """The name of its file with `-` for `_`: `gradient-by-layer`."""
    title: str
    formula: str
    """Plain text with Unicode signs."""
    source: str
    """Its place in the papers: `Xiong et al. 2020, figure 3`."""
    look_for: str
    """What to look for in the figure, in one or two sentences."""
    axes: Axes


class Measurement(TypedResult):
    """The numbers of one measure."""

    about: Description
    series: tuple[Series, ...] = ()
    grids: tuple[Grid, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def key(self) -> str:
        return self.about.key

    @property
    def measured(self) -> tuple[Series, ...]:
        return tuple(each for each in self.series if each.role == "measured")

    @property
    def predicted(self) -> tuple[Series, ...]:
        """Predictions and bounds."""
        return tuple(each for each in self.series if each.role != "measured")

    def select(self, *, role: SeriesRole = "measured", quantity: str | None = None, **location: Any) -> list[Series]:
        """The series of a role whose location has these values: `select(stack="decoder", matrix="outer")`."""
        return [
            each
            for each in self.series
            if each.role == role and quantity in (None, each.quantity) and _agrees(each.location, location)
        ]

    def find_facts(self, name: FactName, *, quantity: str | None = None, **location: Any) -> list[Fact]:
        """The facts of that name whose location has these values."""
        return [
            each
            for each in self.facts
            if each.name == name and quantity in (None, each.quantity) and _agrees(each.location, location)
        ]

    def fact(self, name: FactName, *, quantity: str | None = None, **location: Any) -> float | None:
        """The value of the only such fact; None if there is none or if there are several."""
        found = self.find_facts(name, quantity=quantity, **location)
        return found[0].value if len(found) == 1 else None


def _agrees(location: Location, values: dict[str, Any]) -> bool:
    return all(getattr(location, name) == value for name, value in values.items())


class NotMeasured(TypedResult):
    """A measure that could not be taken, and why."""

    key: str
    reason: str
    lacks: tuple[MissingEvidence, ...] = ()
    """The evidence it lacked, any one of which would have been enough; empty where it failed for another reason."""


class Setting(TypedResult):
    """A remedy: a key of the config with the value it should have."""

    kind: Literal["setting"] = "setting"
    key: str
    """The key, such as `schedule.learning_rate`."""
    relation: Literal["=", "<", ">"] = "="
    value: float | int | str | bool
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


Remedy = Annotated[Setting | SchemeTrait | Action, Field(discriminator="kind")]


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

    def write(self, file: Path) -> None:
        write_file(file, self.model_dump_json(indent=1).encode())

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
        found = TypeAdapter(Diagnosis | list[Diagnosis]).validate_json(raw)
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
