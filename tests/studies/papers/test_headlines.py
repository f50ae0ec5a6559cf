"""Comparisons of ROUGE."""

from __future__ import annotations

from lamina.studies.papers.headlines import ROUGE, beats, equals, rouge_table
from lamina.studies.result_table import ResultTable
from support.made_results import rows


def test_schemes_are_compared_by_all_three() -> None:
    results = ResultTable(
        each
        for scheme, score in (("b2t", 39.0), ("pre-ln", 38.0))
        for name in ROUGE
        for each in rows(f"test {name}", score, scheme=scheme, depth="6-6")
    )
    assert [each.outcome for each in beats(results, "b2t", "pre-ln", "6-6")] == ["holds"] * 3
    assert [each.outcome for each in equals(results, "b2t", "pre-ln", "6-6", 0.3)] == ["does not hold"] * 3
    assert rouge_table(results, ("b2t", "pre-ln")).rows[0][1].startswith("39")
