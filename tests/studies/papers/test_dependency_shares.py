"""Shares of branches, their prediction, and a doubled branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.papers.dependency_shares import (
    double_branch,
    expected_squares,
    measure_predictions,
    measure_shares,
    omegas_of,
    ratio_of_first_variances,
    record_encoder,
)
from lamina.studies.papers.initial_models import initial_subject
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> StudyContext:
    return StudyContext(Path(tmp_path_factory.mktemp("study")), "micro")


def test_every_row_has_the_embedding_and_all_branches_so_far(context: StudyContext) -> None:
    subject = initial_subject(context, "pre-ln", (2, 1))
    encoder = record_encoder(subject.build(1), subject.passes[0])
    found = ResultTable([*measure_shares(encoder, 1, "pre-ln"), *measure_predictions(encoder, 1, "pre-ln")])
    assert {i: list(found.along("j", "β", i=i)) for i in (1, 4)} == {1: [0, 1], 4: [0, 1, 2, 3, 4]}
    assert found.sample("β of the own branch", i=3).mean == found.sample("β", i=3, j=3).mean
    own, earlier = found.sample("β", i=4, j=4).mean, found.sample("β", i=4, j=2).mean
    assert found.sample("own β ÷ largest earlier β", i=4).mean == pytest.approx(own / earlier)
    assert found.sample("Σβ²", i=2).mean == pytest.approx(
        sum(sample.mean**2 for sample in found.along("j", "β", i=2).values())
    )
    first = encoder.sublayers[0]
    f, x = (each.value.var(correction=0).item() for each in (first.branch, first.before[0]))  # type: ignore[union-attr]
    assert expected_squares(encoder)[0] == pytest.approx(f / (x + f), rel=1e-4)
    assert found.sample("β² ÷ prediction", i=1).mean == pytest.approx(
        found.sample("β", i=1, j=1).mean ** 2 * (x + f) / f
    )
    assert omegas_of(encoder) == []


def test_with_omega_the_prediction_weighs_the_stream(context: StudyContext) -> None:
    subject = initial_subject(context, "admin", (2, 1))
    encoder = record_encoder(subject.build(1), subject.passes[0])
    omega, second = omegas_of(encoder)[1], encoder.sublayers[1]
    f, x = (each.value.var(correction=0).item() for each in (second.branch, second.before[0]))  # type: ignore[union-attr]
    assert omega > 1
    assert expected_squares(encoder)[1] == pytest.approx(f / (omega**2 * x + f), rel=1e-4)
    assert ratio_of_first_variances(encoder) > 0


def test_a_doubled_branch_has_four_times_the_variance(context: StudyContext) -> None:
    subject = initial_subject(context, "pre-ln", (1, 1))
    model = subject.build(1)
    plain = record_encoder(model, subject.passes[0]).sublayers[1].branch
    double_branch(model, 2)
    doubled = record_encoder(model, subject.passes[0]).sublayers[1].branch
    assert plain is not None
    assert doubled is not None
    assert doubled.value.var().item() == pytest.approx(4 * plain.value.var().item(), rel=1e-4)
