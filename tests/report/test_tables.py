"""Tables of the numbers behind figures."""

from __future__ import annotations

import math

from lamina.diagnosis.measurement import Grid
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import NEUTRAL
from lamina.report.tables import fact_table, map_table, panel_table, thin_out
from support.made_diagnoses import gradient_along_stream, output_change


def test_a_panel_has_a_row_for_each_x_and_a_column_for_each_curve() -> None:
    first, second = gradient_along_stream("pre-ln", 2).series[:2]
    second = second.model_copy(update={"x": (2.0, 3.0), "spread": ()})
    table = panel_table(Panel("t", (Curve("a", first, NEUTRAL), Curve("b", second, NEUTRAL))), "layer")
    assert table.headings == ("layer", "a", "b")
    assert table.rows == (("1", "0.3 ± 0.09", "–"), ("2", "0.3 ± 0.09", "0.5"), ("3", "–", "0.5"))


def test_a_map_counts_from_its_first_row_and_column() -> None:
    grid = Grid(values=((1.0, math.nan), (0.5,)), rows="layer", columns="branch", first_row=3, first_column=0)
    table = map_table("t", grid)
    assert table.headings == ("layer ↓ branch →", "0", "1")
    assert table.rows == (("3", "1", ""), ("4", "0.5", ""))


def test_facts_have_a_row_each_and_a_column_for_each_model() -> None:
    both = {"a": gradient_along_stream("post-ln", 2), "b": output_change("post-ln")}
    table = fact_table(both, alone=False)
    assert table is not None
    assert table.headings == ("", "a", "b")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["decoder slope"] == ("−0.288 ± 0.12", "–")
    assert rows["noise R² of n"] == ("–", "0.996")
    alone = fact_table({"b": both["b"]}, alone=True)
    assert alone is not None
    assert alone.headings == ("", "value")


def test_long_tables_keep_their_ends() -> None:
    assert thin_out(range(100), 5) == [0, 25, 50, 74, 99]
    assert thin_out([1, 2], 5) == [1, 2]
