"""Maps: one range of colours for all, ragged rows, and words for screen readers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lamina.diagnosis.measurement import Grid
from lamina.report.figures.maps import colour_range, describe, draw_maps, to_array


def grid(*rows: tuple[float, ...], first_column: int = 1) -> Grid:
    return Grid(values=rows, rows="layer", columns="earlier layer", first_column=first_column)


def test_missing_values_are_nan_at_the_end_of_their_row() -> None:
    assert np.array_equal(to_array(grid((1.0,), (2.0, 3.0))), [[1.0, math.nan], [2.0, 3.0]], equal_nan=True)
    assert to_array(grid()).shape == (0, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.2, 0.5), (0.0, 0.5)),  # from zero where nothing is below
        ((-0.5, 0.5), (-0.5, 0.5)),
        ((0.2, 0.8), (0.0, 1.0)),  # to one where values come near it
        ((0.2, 3.0), (0.0, 3.0)),
        ((0.0, 0.0), (0.0, 1.0)),
        ((math.nan, math.inf), (0.0, 1.0)),
    ],
)
def test_the_range_of_colours(values: tuple[float, ...], expected: tuple[float, float]) -> None:
    assert colour_range([grid(values)]) == expected


def test_all_maps_share_one_range() -> None:
    assert colour_range([grid((-2.0, 0.0)), grid((0.0, 5.0))]) == (-2.0, 5.0)


def test_a_map_in_words() -> None:
    assert describe("decoder", np.array([[0.25, math.nan], [0.5, 2.0]])) == "decoder: a map of 2 by 2, from 0.25 to 2."
    assert describe("decoder", np.array([[math.nan]])) == "decoder: a map of 1 by 1 without a finite value."


def test_every_map_is_a_picture_and_the_colour_bar_is_the_last() -> None:
    first, second, bar = draw_maps([("one", grid((0.0, 0.5))), ("<b>", grid((0.25, 2.0), first_column=0))], "maps")
    assert 'aria-label="one: a map of 1 by 2, from 0 to 0.5."' in first
    assert "&lt;b&gt;: a map" in second
    assert "<b>" not in second
    assert ">1</text>" in first
    assert ">0</text>" in second, "its columns count from 0"
    assert 'aria-label="colours from 0 to 2"' in bar


def test_a_long_axis_has_few_numbers() -> None:
    picture = draw_maps([("long", grid(tuple(range(100))))], "maps")[0]
    labels = [each.partition("</text>")[0].rpartition(">")[2] for each in picture.split("<text")[1:]]
    columns = [int(each) for each in labels if each.isdigit()]
    assert columns[0] == 1
    assert 100 in columns
    assert len(columns) <= 8
