"""The numbers of a study as a table with one row per value, from which claims and exhibits are made.

    quantity     value   seed   labels
    gradient     0.031      1   scheme = post-ln, stack = decoder, layer = 3
    bleu          21.4      2   scheme = b2t, depth = 18-18, data = wmt

Labels say under which condition and at which place a value was measured. A study chooses its labels; the code that
selects rows compares them and never takes a text apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lamina.diagnosis.measurement import Series, TypedResult
from lamina.errors import UserError
from lamina.studies.samples import Sample, SampleSeed, fit_line

Label = str | int | float
"""The value of a label."""


class ResultRow(TypedResult):
    """One value with its condition."""

    quantity: str
    value: float | None
    """None if the run failed."""
    seed: SampleSeed = None
    labels: dict[str, Label] = {}


def row(quantity: str, value: float | None, seed: SampleSeed = None, **labels: Label) -> ResultRow:
    """One value with its condition, in short."""
    return ResultRow(quantity=quantity, value=value, seed=seed, labels=labels)


class ResultTable(Sequence[ResultRow]):
    """The rows of a study."""

    def __init__(self, rows: Iterable[ResultRow] = ()) -> None:
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def __iter__(self) -> Iterator[ResultRow]:
        return iter(self.rows)

    def where(self, quantity: str | None = None, **labels: Label) -> ResultTable:
        """The rows of a quantity whose labels have these values."""
        return ResultTable(
            row
            for row in self.rows
            if quantity in (None, row.quantity)
            and all(name in row.labels and row.labels[name] == value for name, value in labels.items())
        )

    def between(self, name: str, low: float = -math.inf, high: float = math.inf) -> ResultTable:
        """The rows whose label `name` is a number from `low` to `high`."""
        return ResultTable(row for row in self.rows if name in row.labels and low <= float(row.labels[name]) <= high)

    def sample(self, quantity: str, **labels: Label) -> Sample:
        """The only value of each seed; rows that are missing, or several rows for one seed, are an error."""
        rows = self.where(quantity, **labels)
        if not rows:
            raise Missing(f"{quantity} was not measured for {_text(labels)}")
        if len({row.seed for row in rows}) < len(rows):
            raise UserError(f"{quantity} has several values for one seed and {_text(labels)}: give more labels")
        return Sample({row.seed: row.value for row in rows})

    def along(self, name: str, quantity: str, **labels: Label) -> dict[Label, Sample]:
        """The samples of a quantity for every value of the label `name`, in ascending order."""
        rows = self.where(quantity, **labels)
        places = sorted({row.labels[name] for row in rows if name in row.labels}, key=_order)
        if not places:
            raise Missing(f"{quantity} was not measured along {name} for {_text(labels)}")
        return {place: rows.sample(quantity, **{name: place}) for place in places}

    def slope(self, name: str, quantity: str, *, log_x: bool = False, log_y: bool = False, **labels: Label) -> Sample:
        """The slope of the least-squares line along a label, seed by seed."""
        return self._fitted(0, name, quantity, log_x, log_y, labels)

    def r_squared(
        self, name: str, quantity: str, *, log_x: bool = False, log_y: bool = False, **labels: Label
    ) -> Sample:
        """R² of that line, seed by seed."""
        return self._fitted(1, name, quantity, log_x, log_y, labels)

    def reduce(self, function: Callable[[Sequence[float]], float], name: str, quantity: str, **labels: Label) -> Sample:
        """A function of all values along a label, such as `max`, seed by seed; None for a seed with a failed run."""
        return self._by_seed(name, quantity, labels, lambda _, y: function(y))

    def largest_to_least(self, name: str, quantity: str, **labels: Label) -> Sample:
        """The largest value along a label divided by the least, seed by seed."""
        return self.reduce(
            lambda values: max(values) / min(values) if min(values) else math.inf, name, quantity, **labels
        )

    def first_to_last(self, name: str, quantity: str, **labels: Label) -> Sample:
        """The value at the first place along a label divided by that at the last, seed by seed."""
        return self.reduce(lambda values: values[0] / values[-1] if values[-1] else math.nan, name, quantity, **labels)

    def _fitted(
        self, part: int, name: str, quantity: str, log_x: bool, log_y: bool, labels: Mapping[str, Label]
    ) -> Sample:
        def fit(x: Sequence[float], y: Sequence[float]) -> float:
            return fit_line(_logs(x) if log_x else x, _logs(y) if log_y else y)[part]

        return self._by_seed(name, quantity, labels, fit)

    def _by_seed(
        self,
        name: str,
        quantity: str,
        labels: Mapping[str, Label],
        function: Callable[[Sequence[float], Sequence[float]], float],
    ) -> Sample:
        samples = self.along(name, quantity, **labels)
        found: dict[SampleSeed, float | None] = {}
        for seed in next(iter(samples.values())).by_seed:
            pairs = [(float(place), sample.by_seed.get(seed)) for place, sample in samples.items()]
            y = [value for _, value in pairs if value is not None]
            found[seed] = function([place for place, _ in pairs], y) if len(y) == len(pairs) else None
        return Sample(found)

    def curve(self, name: str, quantity: str, **labels: Label) -> Series:
        """Means along a label as the line of a figure, with half the width of the 95 % interval as its band."""
        samples = self.along(name, quantity, **labels)
        halves = [sample.half_width or 0.0 for sample in samples.values()]
        return Series(
            quantity=quantity,
            x=tuple(float(place) for place in samples),
            y=tuple(sample.mean for sample in samples.values()),
            spread=tuple(halves) if any(halves) else (),
        )


class Missing(UserError):
    """A claim needs a value that was not measured, at this scale or in this version."""


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) if value > 0 else math.nan for value in values]


def _order(label: Label) -> tuple[bool, float, str]:
    return (True, 0.0, label) if isinstance(label, str) else (False, float(label), "")


def _text(labels: Mapping[str, Label]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in labels.items()) or "any condition"
