"""Tables of metrics: a task declares which of its metrics belong together, such as BLEU by language.

An evaluation returns metrics by name. A table says in which row and column each name stands, so that what prints
metrics needs no knowledge of the task and reads no meaning out of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MetricRow:
    """One row of a table: its name, and the metric of each column."""

    name: str
    metrics: tuple[str | None, ...]
    """The name of the metric in each column; None for an empty cell."""

    def read(self, values: Mapping[str, float]) -> tuple[float | None, ...]:
        """The value of each cell; None where there is none."""
        return tuple(None if name is None else values.get(name) for name in self.metrics)


@dataclass(frozen=True)
class MetricTable:
    """Some of the metrics that a task's `evaluate` returns, arranged as a table."""

    title: str
    rows_are: str
    """What a row stands for, such as `language`."""
    columns: tuple[str, ...]
    rows: tuple[MetricRow, ...]
    means: MetricRow | None = None
    """The last row, which sums up the others; its metrics are also listed outside the table."""

    @property
    def all_rows(self) -> tuple[MetricRow, ...]:
        return self.rows if self.means is None else (*self.rows, self.means)

    def measured(self, values: Mapping[str, float]) -> MetricTable:
        """The table without the rows of which nothing was measured, such as a language that has no test set."""
        rows = tuple(row for row in self.rows if any(name in values for name in row.metrics))
        return replace(self, rows=rows)


def detail_metrics(tables: Iterable[MetricTable]) -> frozenset[str]:
    """The metrics that are shown in a table only: those of all rows but the means."""
    return frozenset(name for table in tables for row in table.rows for name in row.metrics if name is not None)


def mean_metrics(tables: Iterable[MetricTable]) -> tuple[str, ...]:
    """The metrics that sum up tables, in the order of their columns."""
    means = (name for table in tables if table.means is not None for name in table.means.metrics if name is not None)
    return tuple(dict.fromkeys(means))


def filled_tables(tables: Iterable[MetricTable], values: Mapping[str, float]) -> list[MetricTable]:
    """The tables that have a measured row, each with its measured rows only."""
    return [shown for table in tables if (shown := table.measured(values)).rows]
