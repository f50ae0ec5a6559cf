"""The base class of measures: a quantity with its formula and source, taken from the evidence of a diagnosis.

A measure is one file of this folder, discovered by its name (`gradient_by_layer.py` holds the measure whose key is
`gradient-by-layer`), or a class that an installed package adds through the entry-point group `lamina.measures`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.diagnosis.measurement import Axes, Description, Fact, FactName, Grid, Measurement, Series
from lamina.diagnosis.planned_update import PlannedUpdate, planned_update
from lamina.diagnosis.recording.passes import Pass, as_written, backward, state_restored
from lamina.diagnosis.recording.records import MatrixName, Record
from lamina.diagnosis.results import ModelFacts
from lamina.residual.base import Placement

if TYPE_CHECKING:
    from lamina.diagnosis.watching.observation import Observation

Need = Literal["record", "gradients", "model", "optimiser", "factory", "widths", "history"]
"""The evidence that a measure is taken from.

record      one recorded pass; taken for every batch, and averaged over batches and seeds
gradients   the expected gradient of every weight matrix, the mean over batches
model       a model and a batch, with passes of the measure's own
optimiser   an optimiser in the state in which training left it
factory     a function that builds models of any depth
widths      a function that builds models of any width
history     the observations of a watch during training
"""
Factory = Callable[[int, int | None], nn.Module]
"""Builds a model from a seed and a number of layers; None stands for the model's own depth."""
OfWidth = Callable[[int], nn.Module]
"""Builds a model of a width."""
Value = TypeVar("Value")

FIRST_TO_LAST = FactName("first/last")
"""The first value of a line divided by its last."""
LARGEST_TO_LEAST = FactName("largest/least")
SLOPE = FactName("slope")
"""The slope of a least-squares line, of the logarithms where a measure says so."""
POWER = FactName("power")
"""The exponent p of a fit y ~ xᵖ."""


class NotMeasurable(Exception):
    """A measure cannot be taken here; the message says what is missing."""


@dataclass(frozen=True)
class ModelStructure:
    """The structure of a model, as its first record shows it."""

    description: str
    """`6-6 encoder-decoder, width 512, b2t`."""
    schemes: tuple[str, ...] = ()
    placements: Mapping[str, Placement | None] = field(default_factory=dict)
    """The position of the norms of each stack; None if it is unknown."""
    sublayers_per_layer: int = 2
    """The number of sub-layers per layer of the first stack."""
    output_stack: str | None = None
    """The stack from which the loss is computed."""
    facts: ModelFacts | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a measure may use; None where a diagnosis does not have it."""

    structure: ModelStructure | None = None
    record: Record | None = None
    gradients: Mapping[MatrixName, Tensor] | None = None
    model: nn.Module | None = None
    optimiser: Optimizer | None = None
    learning_rate: float | None = None
    """The highest learning rate that is planned; None if it is unknown."""
    factory: Factory | None = None
    passes: Sequence[Pass] = ()
    """Each runs a model on one batch and returns the loss."""
    depths: Sequence[int] = ()
    """The numbers of layers at which the change of the output is measured."""
    of_width: OfWidth | None = None
    widths: Sequence[int] = ()
    """The widths of the coordinate check."""
    history: Sequence[Observation] | None = None

    @cached_property
    def planned(self) -> PlannedUpdate:
        """The next update of the model on the first batch, which several measures read."""
        model, run = require(self.model), self.passes[0]
        with as_written(model), state_restored(model):
            return planned_update(model, partial(backward, model, run), self.optimiser, self.learning_rate)

    @property
    def available(self) -> frozenset[Need]:
        """The kinds of evidence that are present."""
        needs: dict[Need, object] = {
            "record": self.record,
            "gradients": self.gradients,
            "model": self.model,
            "optimiser": self.optimiser,
            "factory": self.factory,
            "widths": self.of_width,
            "history": self.history,
        }
        return frozenset(name for name, value in needs.items() if value is not None)


def require(value: Value | None) -> Value:
    """A part of the evidence that the caller has checked to be present."""
    assert value is not None, "a measure was taken without what it needs"
    return value


class Measure(ABC):
    """The base class of all measures."""

    key: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    look_for: ClassVar[str]
    axes: ClassVar[Axes]
    needs: ClassVar[tuple[Need, ...]]
    """The kinds of evidence that the measure can be taken from; any one of them is enough."""
    max_seeds: ClassVar[int | None] = None
    """The largest number of seeds at which it is taken, if its own passes are expensive; None for all."""
    first_batch_only: ClassVar[bool] = False
    """Whether a measure with passes of its own is taken on the first batch only, so that it has no spread."""
    quick: ClassVar[bool] = True
    """Whether a quick diagnosis takes it; not if it makes many passes of its own."""
    position: ClassVar[int] = 1000
    """The position in a report: lower numbers come first."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.key = cls.__module__.rpartition(".")[2].replace("_", "-")

    @abstractmethod
    def take(self, evidence: Evidence) -> Measurement:
        """Take the measurement; raises `NotMeasurable` if that is not possible."""

    def conclude(self, measurement: Measurement) -> Measurement:
        """Add what follows from the mean over batches and seeds, such as slopes."""
        return measurement

    @property
    def about(self) -> Description:
        return Description(
            key=self.key,
            title=self.title,
            formula=self.formula,
            source=self.source,
            look_for=self.look_for,
            axes=self.axes,
        )

    def measurement(
        self,
        series: Sequence[Series] = (),
        *,
        grids: Sequence[Grid] = (),
        facts: Sequence[Fact] = (),
        axes: Axes | None = None,
    ) -> Measurement:
        """A measurement of this measure; `axes` replace the measure's own."""
        about = self.about if axes is None else self.about.model_copy(update={"axes": axes})
        return Measurement(about=about, series=tuple(series), grids=tuple(grids), facts=tuple(facts))
