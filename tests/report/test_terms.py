"""Terms are explained once, where they first appear."""

from __future__ import annotations

from lamina.report.terms import TERMS, Terms


def test_each_term_is_explained_at_its_first_appearance() -> None:
    terms = Terms()
    assert [term for term, _ in terms.explain("the residual stream collapses from sub-layer 16 on")] == [
        "residual stream",
        "sub-layer",
        "collapse",
    ]
    assert terms.explain("the stream of this sub-layer") == []
    assert [term for term, _ in terms.explain("κ is large")] == ["κ"]


def test_no_explanation_is_longer_than_a_line_or_two() -> None:
    assert all(len(meaning) < 140 for _, meaning in TERMS.values())
