"""Tables of metrics."""

from __future__ import annotations

from lamina.tasks.metric_tables import MetricRow, MetricTable, detail_metrics, filled_tables, mean_metrics

TABLE = MetricTable(
    "BLEU by language",
    "language",
    ("from en", "into en"),
    (MetricRow("de", ("en-de", "de-en")), MetricRow("fr", ("en-fr", None))),
    MetricRow("mean", ("EX", "XE")),
)
EMPTY = MetricTable("Others", "direction", ("BLEU",), ())


def test_cells_are_read_by_the_names_of_metrics() -> None:
    values = {"en-de": 20.0, "de-en": 25.0, "en-fr": 30.0, "EX": 25.0, "nll": 2.0}
    assert [row.read(values) for row in TABLE.all_rows] == [(20.0, 25.0), (30.0, None), (25.0, None)]


def test_rows_without_a_value_are_left_out_and_so_are_empty_tables() -> None:
    (shown,) = filled_tables([TABLE, EMPTY], {"en-fr": 30.0, "EX": 30.0})
    assert [row.name for row in shown.all_rows] == ["fr", "mean"]
    assert filled_tables([TABLE, EMPTY], {"nll": 2.0, "EX": 30.0}) == []


def test_means_are_listed_outside_the_table_too() -> None:
    assert detail_metrics([TABLE, EMPTY]) == {"en-de", "de-en", "en-fr"}
    assert mean_metrics([TABLE, EMPTY, TABLE]) == ("EX", "XE")
