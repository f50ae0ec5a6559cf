"""The typed values of a measure: series, grids and facts, each with the place in the model that it belongs to.

These classes depend on neither models nor figures. Where a number belongs is said by fields (`Location`, `Stage`,
`role`, `quantity`), never by a label: text is made from these fields when a page is written.
"""

from __future__ import annotations

from typing import Any, Literal, NewType

from pydantic import BaseModel, ConfigDict

SeriesRole = Literal["measured", "predicted", "bound"]
"""Whether a series was measured, is predicted by a theorem for this model, or is a bound from a theorem."""
FactName = NewType("FactName", str)
"""The name of a fact: `slope`, `R² of ln n`. A measure defines its names as constants, which checks import, so that the
type checker finds a misspelled one."""
MissingEvidence = Literal["passes", "training", "depths", "widths", "quick"]
"""Evidence that a measure lacked: passes through the model, an optimiser in training, models of several depths or
widths; or it was left out of a quick diagnosis."""


class TypedResult(BaseModel):
    """The base of all classes of a diagnosis: immutable, with infinities and NaN preserved in JSON."""

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
    points: bool = False
    """Whether the values are single events, which no line connects."""
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
    column_numbers: tuple[int, ...] = ()
    """The numbers of all columns where they are not consecutive, such as steps; then `first_column` is not used."""
    logarithmic: bool = False
    """Whether values differ by factors, so that colours stand for their logarithms."""

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
