"""Cells, tables and curves that studies share."""

from __future__ import annotations

from lamina.studies.papers.exhibits import average_bleu, by_year, cell, curve_minimum, reaches, score_table
from lamina.studies.result_table import ResultTable, row
from lamina.studies.samples import Sample


def test_cells_show_spread_and_failures() -> None:
    assert cell(Sample({1: None, 2: None})) == "failed"
    assert cell(Sample({1: 2.0, 2: 2.0, 3: None})) == "2 ± 0, 1 of 3 failed"
    assert cell(Sample.exact(3.5)) == "3.5"


def test_what_was_not_measured_is_a_dash() -> None:
    results = ResultTable([row("bleu", 20.0, 1, scheme="b2t")])
    table = score_table(
        results, "BLEU", {"B2T": {"scheme": "b2t"}, "Admin": {"scheme": "admin"}}, {"BLEU": ("bleu", {})}
    )
    assert table.rows == (("B2T", "20"), ("Admin", "–"))


def test_averages_over_the_years() -> None:
    years = [row("test bleu", year - 2000.0, 1, scheme="b2t", depth="6-6", set=year) for year in range(2010, 2017)]
    results = ResultTable(years)
    assert average_bleu(results, "b2t", "6-6").mean == 13.0
    assert by_year(results, "BLEU", ("6-6",), ("b2t",)).rows[0][-1] == "13"


def test_places_on_curves() -> None:
    losses = {100: 5.0, 200: 4.0, 400: 4.5}
    results = ResultTable(
        row("validation loss by step", loss, 1, scheme="b2t", step=step) for step, loss in losses.items()
    )
    place, rise = curve_minimum(results, scheme="b2t")
    assert (place.mean, rise.mean) == (0.5, 0.5)
    assert reaches(results, {"scheme": "b2t"}, Sample({1: 4.2})).mean == 0.5
    assert reaches(results, {"scheme": "b2t"}, Sample({1: 1.0})).mean == 2.0
