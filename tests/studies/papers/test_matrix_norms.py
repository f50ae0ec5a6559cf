"""Gradients and updates of matrices: what is concluded from them."""

from __future__ import annotations

import pytest

from lamina.diagnosis.recording.records import MatrixName
from lamina.studies.papers.matrix_norms import MatrixNorms, share_of_smaller_queries, spread_over_kinds


def named(kind: str, layer: int = 0) -> MatrixName:
    return MatrixName(f"{kind}{layer}", "encoder", layer, kind)


def test_queries_and_keys_must_both_be_smaller_than_values_and_outputs() -> None:
    gradients = {"query": 1.0, "key": 2.0, "value": 3.0, "output": 4.0}
    norms = {named(kind): MatrixNorms(value, 1.0, 1) for kind, value in gradients.items()}
    assert share_of_smaller_queries(norms) == 1.0
    norms |= {named(kind, 1): MatrixNorms(value, 1.0, 1) for kind, value in {**gradients, "key": 3.5}.items()}
    assert share_of_smaller_queries(norms) == 0.5


def test_the_spread_compares_updates_per_weight_over_kinds() -> None:
    norms = {named("query"): MatrixNorms(1.0, 2.0, 4), named("outer"): MatrixNorms(1.0, 6.0, 4)}
    assert spread_over_kinds(norms) == pytest.approx(3.0)
    norms[named("outer", 1)] = MatrixNorms(1.0, 0.0, 4)
    assert spread_over_kinds(norms) == pytest.approx(3.0 / 2**0.5)
