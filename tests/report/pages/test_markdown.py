"""Markdown: all text is escaped, curves are bars and maps are shades."""

from __future__ import annotations

import math

import pytest

from lamina.diagnosis.measurement import Grid, Series
from lamina.report.figures.panels import Curve
from lamina.report.figures.style import NEUTRAL
from lamina.report.pages.markdown import Markdown, bars, code, curve_table, escape, inline_code, shaded_maps, table
from lamina.report.tables import Table


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a *b* [c](d)", r"a \*b\* \[c\](d)"),
        ("<b> & `x` | y", r"\<b\> \& \`x\` \| y"),
        ("_x_ but model_dim", r"\_x\_ but model_dim"),
        ("# not a heading", r"\# not a heading"),
        ("1. not a list", r"1\. not a list"),
        ("- not a list", r"\- not a list"),
        ("-3 is a number", "-3 is a number"),
    ],
)
def test_text_is_escaped(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_what_is_markdown_already_stays_as_it_is() -> None:
    assert escape(Markdown("**bold**")) == "**bold**"
    assert escape(escape("*")) == r"\*"
    assert escape(3) == "3"


def test_code_has_a_fence_longer_than_any_inside() -> None:
    assert code("x") == "```text\nx\n```"
    assert code("a ```` b") == "`````text\na ```` b\n`````"
    assert inline_code("x") == "`x`"
    assert inline_code("a`b") == "`` a`b ``"


def test_a_table_is_aligned_and_its_cells_are_escaped() -> None:
    assert table(Table("", ("scheme", "nll"), (("pre|ln", "4.25"), ("b2t", "3")))).splitlines() == [
        "| scheme  |  nll |",
        "|:--------|-----:|",
        "| pre\\|ln | 4.25 |",
        "| b2t     |    3 |",
    ]


def test_bars_rise_with_the_values() -> None:
    assert bars([0, 1, 2, 3, 4, 5, 6, 7], log=False) == "▁▂▃▄▅▆▇█"
    assert bars([1, 10, 100], log=True) == bars([0, 1, 2], log=False)
    assert len(set(bars([3, 3, 3], log=False))) == 1
    assert len(bars(range(1000), log=False)) == 24


def test_values_without_a_bar_have_a_sign() -> None:
    assert bars([1, math.inf, math.nan, 8], log=False) == "▁∞?█"
    assert bars([1, 0, 8], log=True) == "▁·█", "zero has no logarithm"
    assert bars([math.nan, math.nan], log=False) == "??"


def test_a_curve_has_its_ends_and_its_extremes() -> None:
    curve = Curve("post-ln", Series(x=(1, 2, 3, 4), y=(2.0, 1.0, math.inf, 3.0)), NEUTRAL)
    row = [cell.strip() for cell in curve_table([curve], log=False).splitlines()[2].split("|")[1:-1]]
    assert row == ["post-ln", bars(curve.series.y, log=False), "2", "3", "1", "3"]


def test_maps_have_one_scale() -> None:
    def grid(*values: float) -> Grid:
        return Grid(values=(values,), rows="layer", columns="layer")

    assert shaded_maps([]) == []
    (first, low), (second, high) = shaded_maps([("one", grid(0.0, 2.0, math.nan)), ("two", grid(4.0))])
    assert (first, second) == ("one", "two")
    assert low == "```text\n··▒▒\n```"
    assert high == "```text\n██\n```"
