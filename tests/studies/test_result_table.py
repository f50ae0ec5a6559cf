"""Tables of results: selection by labels, samples, lines and curves."""

from __future__ import annotations

import math

import pytest

from lamina.errors import UserError
from lamina.studies.result_table import Missing, ResultRow, ResultTable, row
from support.made_results import changed, rows

TABLE = ResultTable(
    ResultRow(quantity="gradient", value=value, seed=seed, labels={"scheme": scheme, "layer": layer})
    for seed in (1, 2)
    for scheme, slope in (("post-ln", 0.5), ("pre-ln", 0.0))
    for layer in (1, 2, 3)
    for value in [seed * math.exp(slope * layer)]
)


def test_rows_are_selected_by_quantity_and_labels() -> None:
    assert len(TABLE.where("gradient", scheme="post-ln")) == 6
    assert len(TABLE.where("gradient", scheme="post-ln", layer=2)) == 2
    assert len(TABLE.where("loss")) == 0
    assert len(TABLE.where("gradient", width=8)) == 0


def test_a_sample_has_one_value_per_seed() -> None:
    assert TABLE.sample("gradient", scheme="pre-ln", layer=2).by_seed == {1: 1.0, 2: 2.0}
    with pytest.raises(UserError, match="several values for one seed"):
        TABLE.sample("gradient", scheme="pre-ln")
    with pytest.raises(Missing, match="loss was not measured for layer = 2"):
        TABLE.sample("loss", layer=2)


def test_slopes_are_fitted_seed_by_seed() -> None:
    assert TABLE.slope("layer", "gradient", log_y=True, scheme="post-ln").by_seed == pytest.approx({1: 0.5, 2: 0.5})
    assert TABLE.r_squared("layer", "gradient", log_y=True, scheme="post-ln").by_seed == pytest.approx({1: 1, 2: 1})
    largest = TABLE.reduce(max, "layer", "gradient", scheme="post-ln")
    assert largest.by_seed == pytest.approx({1: math.exp(1.5), 2: 2 * math.exp(1.5)})


def test_ratios_are_taken_seed_by_seed() -> None:
    assert TABLE.largest_to_least("layer", "gradient", scheme="post-ln").by_seed == pytest.approx(
        {1: math.e, 2: math.e}
    )
    assert TABLE.first_to_last("layer", "gradient", scheme="post-ln").by_seed == pytest.approx(
        {1: 1 / math.e, 2: 1 / math.e}
    )
    zero = ResultTable([row("x", 0.0, 1, layer=1), row("x", 1.0, 1, layer=2)])
    assert zero.largest_to_least("layer", "x").by_seed == {1: math.inf}


def test_rows_are_selected_by_a_range_of_a_label() -> None:
    assert {each.labels["layer"] for each in TABLE.between("layer", low=2)} == {2, 3}
    assert {each.labels["layer"] for each in TABLE.between("layer", high=2)} == {1, 2}
    assert len(TABLE.between("depth")) == 0


def test_a_row_in_short() -> None:
    assert row("loss", 1.0, 3, scheme="b2t") == ResultRow(quantity="loss", value=1.0, seed=3, labels={"scheme": "b2t"})


def test_a_seed_with_a_failed_run_has_no_slope() -> None:
    broken = changed(TABLE, "gradient", lambda row: None if row.seed == 2 else row.value, scheme="post-ln", layer=3)
    assert broken.slope("layer", "gradient", log_y=True, scheme="post-ln").by_seed == {1: pytest.approx(0.5), 2: None}


def test_places_are_in_ascending_order_whatever_the_order_of_rows() -> None:
    table = ResultTable([*rows("loss", 1.0, depth=12), *rows("loss", 2.0, depth=6)])
    assert list(table.along("depth", "loss")) == [6, 12]
    curve = table.curve("depth", "loss")
    assert curve.x == (6.0, 12.0)
    assert curve.y == pytest.approx((2.0, 1.0))
    assert len(curve.spread) == 2
    assert min(curve.spread) > 0
