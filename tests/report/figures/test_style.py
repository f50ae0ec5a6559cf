"""Styles of lines: which model or part has which colour, marker and dashes."""

from __future__ import annotations

from lamina import residual
from lamina.report.figures.style import model_styles, part_styles


def test_a_scheme_has_the_same_colour_on_every_page() -> None:
    alone, beside = model_styles([["pre-ln"]])[0], model_styles([["post-ln", "post-ln"], ["pre-ln"], []])[1]
    assert alone == beside
    assert alone.colour == residual.find("pre-ln").colour


def test_all_schemes_together_are_told_apart() -> None:
    every = model_styles([[scheme.name] for scheme in residual.schemes()])
    assert len({(each.colour, each.linestyle) for each in every}) == len(every)


def test_two_models_of_one_scheme_differ_in_their_markers() -> None:
    first, second = model_styles([["b2t"], ["b2t"]])
    assert first.colour == second.colour
    assert first.marker != second.marker


def test_foreign_models_and_mixtures_take_free_colours() -> None:
    chosen = model_styles([["post-ln"], [], ["post-ln", "pre-ln"], ["unknown"]])
    assert len({each.colour for each in chosen}) == 4


def test_parts_differ_and_predictions_are_dashed_without_markers() -> None:
    styles = part_styles(range(20))
    assert len(set(styles)) == 20
    prediction = styles[0].of_prediction
    assert (prediction.colour, prediction.linestyle, prediction.marker) == (styles[0].colour, "--", None)


def test_equal_parts_share_a_colour_and_are_still_told_apart() -> None:
    query, key, cross_query = part_styles(["query", "key", "query"])
    assert query.colour == cross_query.colour != key.colour
    assert query != cross_query


def test_colours_can_be_left_out() -> None:
    taken = part_styles(["a"])[0].colour
    assert taken not in {style.colour for style in part_styles(range(12), without=[taken])}
