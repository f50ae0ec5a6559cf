"""Blocks of real models under ResiDual and the two others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.papers.initial_models import initial_subject, record_stacks
from lamina.studies.papers.residual_decoders import largest_difference, measure_models
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> StudyContext:
    return StudyContext(Path(tmp_path_factory.mktemp("study")), "micro")


def test_each_block_of_each_method_has_its_values(context: StudyContext) -> None:
    found = ResultTable(measure_models(context, 1))
    for scheme in ("post-ln", "pre-ln", "resi-dual"):
        decoder = found.where(scheme=scheme, stack="decoder")
        assert len(decoder.along("block", "gradient")) == len(decoder.where("change")) == 18
        squares = sum(
            sample.mean**2 for block, sample in decoder.along("block", "gradient").items() if block in (1, 2, 3)
        )
        assert decoder.sample("gradient of a layer", layer=1).mean == pytest.approx(squares**0.5)
    assert found.sample("difference of the streams").mean == 0
    assert found.sample("error of the sum of the parts").mean < 1e-5
    assert found.sample("part of the gradient", stream="dual", block=1).mean > 0


def test_streams_of_different_methods_differ(context: StudyContext) -> None:
    one, other = (record_stacks(initial_subject(context, scheme, (2, 1)), 1) for scheme in ("post-ln", "pre-ln"))
    assert largest_difference(one["encoder"], other["encoder"]) > 0.1
