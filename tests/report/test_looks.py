"""Who is drawn how."""

from __future__ import annotations

from lamina import residual
from lamina.report.figures.style import looks, looks_of_parts


def test_a_scheme_has_its_colour_whoever_stands_beside_it() -> None:
    alone, beside = looks([["pre-ln"]])[0], looks([["post-ln", "post-ln"], ["pre-ln"], []])[1]
    assert alone == beside
    assert alone.colour == residual.find("pre-ln").colour


def test_all_schemes_together_are_told_apart() -> None:
    every = looks([[scheme.name] for scheme in residual.schemes()])
    assert len({(each.colour, each.linestyle) for each in every}) == len(every)


def test_two_models_of_one_scheme_differ_in_their_markers() -> None:
    first, second = looks([["b2t"], ["b2t"]])
    assert first.colour == second.colour
    assert first.marker != second.marker


def test_foreign_models_and_mixtures_take_free_colours() -> None:
    chosen = looks([["post-ln"], [], ["post-ln", "pre-ln"], ["unknown"]])
    assert len({each.colour for each in chosen}) == 4


def test_parts_and_theory() -> None:
    assert len(set(looks_of_parts(20))) == 20
    assert looks_of_parts(1)[0].as_theory.marker is None
