"""A diagnosis as plain values: what was measured, what theory says, what could not be measured, and the verdicts.

It knows neither models nor pictures. It is what `diagnosis/*.json` of a run folder holds and what reports are drawn
from, so that any page can be drawn again without measuring.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lamina.errors import UserError
from lamina.files.atomic import write_file

VERSION: Literal[1] = 1


class Result(BaseModel):
    """The base of all here. Infinities and NaN are results too, and survive JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Series(Result):
    """One line of a picture."""

    label: str
    """What the line is: `encoder`, `decoder`, `query` …"""
    x: tuple[float, ...]
    y: tuple[float, ...]
    """Means over seeds, or over batches."""
    spread: tuple[float, ...] = ()
    """Standard deviations over the same; empty for theory. Of what is nonlinear in the batches, such as the norm of a
    mean, those of the jackknife's pseudo-values."""
    dashes: bool = False
    """Drawn broken: a bound, or a prediction."""


class Grid(Result):
    """A matrix drawn as a map, such as the cosines between all layers."""

    label: str
    values: tuple[tuple[float, ...], ...]
    """Rows from the first layer; NaN where there is nothing."""
    rows: str
    columns: str


class Measure(Result):
    """One quantity: its numbers, and all that a page needs to show them."""

    key: str
    """The name of its file: `gradient-by-layer`."""
    title: str
    formula: str
    """In plain text with Unicode signs."""
    source: str
    """Where the papers have it: `Xiong et al. 2020, figure 3`."""
    look_for: str
    """What to look for in the picture, in one or two sentences."""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    measured: tuple[Series, ...] = ()
    theory: tuple[Series, ...] = ()
    grids: tuple[Grid, ...] = ()
    facts: dict[str, float] = {}
    """Single numbers: slopes, R², ratios."""
    fact_spreads: dict[str, float] = {}
    """Their standard deviations over seeds or batches, where there are several."""


class Skipped(Result):
    """A quantity that could not be measured here."""

    key: str
    reason: str


class Verdict(Result):
    """A plain sentence with its evidence."""

    kind: Literal["vanishing", "rate", "collapse", "amplification", "conditioning", "overflow", "unstable"]
    severity: Literal["fine", "warning", "failure"]
    sentence: str
    """What was found, with number, threshold and layer."""
    advice: str = ""
    """What to change; empty when all is well."""
    value: float
    spread: float | None = None
    """The standard deviation of the value over seeds or batches, where there are several."""
    threshold: float
    where: str = ""
    """`decoder layer 1`; empty when it is about the whole model."""


def _encodable(text: str) -> str:
    """A file's name may hold what UTF-8 cannot: such signs become question marks."""
    return text.encode("utf-8", errors="replace").decode()


class Diagnosis(Result):
    version: Literal[1] = VERSION
    name: Annotated[str, AfterValidator(_encodable)]
    """Of the config, run or class that was looked at."""
    model: str
    """What it is, in a line: `18-18 encoder–decoder, width 64, post-ln`."""
    schemes: tuple[str, ...] = ()
    """The schemes of its stacks; empty for a foreign module."""
    spread_over: Literal["seeds", "batches", "steps"] = "seeds"
    """`steps` where a model was watched in training: its lines run over them."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """How many seeds, batches or watched steps."""
    step: int | None = None
    """Of a trained model; None at the start."""
    seconds: float = 0.0
    verdicts: tuple[Verdict, ...] = ()
    measures: tuple[Measure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    """Whatever else a reader should know: padding unseen, layers found by structure."""

    def __getitem__(self, key: str) -> Measure:
        for measure in self.measures:
            if measure.key == key:
                return measure
        for skipped in self.skipped:
            if skipped.key == key:
                raise UserError(f"{key} was not measured: {skipped.reason}")
        raise UserError(f"{key} was not measured; there are: {', '.join(each.key for each in self.measures)}")

    def write(self, file: Path) -> None:
        write_file(file, self.model_dump_json(indent=1).encode())

    @classmethod
    def read(cls, file: Path) -> Diagnosis:
        try:
            return cls.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            reason = getattr(error, "strerror", None) or "not a diagnosis, or one of another version"
            raise UserError(f"{file}: {reason}; make it again with lamina diagnose") from error
