"""The stream without norms: the weights of the residual connections decide its growth."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.papers.no_norm_streams import (
    PAPER_WEIGHTS,
    WITHOUT_WEIGHTS,
    measure_no_norm_streams,
    paper_alpha,
)
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext


def test_the_stream_grows_with_its_weights(tmp_path: Path) -> None:
    context = StudyContext(tmp_path, "micro")
    last = {}
    for weights in (*WITHOUT_WEIGHTS, PAPER_WEIGHTS):
        found = ResultTable(measure_no_norm_streams(context, 3, weights, 1))
        assert list(found.along("layer", "standard deviation")) == [0, 1, 2, 3]
        last[weights] = (
            found.sample("standard deviation", layer=3).mean / found.sample("standard deviation", layer=0).mean
        )
    both, inner = WITHOUT_WEIGHTS
    assert last[both] > last[inner] > last[PAPER_WEIGHTS]


@pytest.mark.parametrize(("layers", "alpha"), [(6, 0.5), (12, 12**-0.15), (60, 60**-0.15)])
def test_alpha_is_that_of_equation_7(layers: int, alpha: float) -> None:
    assert paper_alpha(layers) == pytest.approx(alpha)
