"""The lemmas on small stacks: every value against its formula."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lamina.studies.papers.theory import gaussian_inputs, run_theory, squared_norm, theory_stack
from lamina.studies.papers.xiong_lemmas import measure_stacks, measure_sums, measure_vectors, measure_widths
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext

CONTEXT = StudyContext(Path("unused"), "micro")


def test_values_about_gaussian_vectors_are_near_their_expectations() -> None:
    found = ResultTable(measure_vectors(CONTEXT, 1))
    assert found.sample("squared norm after ReLU").mean == pytest.approx(0.5, abs=0.02)
    assert found.sample("squared norm after the norm").mean == pytest.approx(1)
    assert found.sample("Jacobian norm ÷ (√d / ‖x − mean‖)").mean == pytest.approx(1, abs=1e-9)
    assert found.sample("tail probability", size=64, bound=0.5).mean < math.exp(-2)


def test_each_layer_of_the_stacks_has_its_values() -> None:
    found = ResultTable(measure_stacks(CONTEXT, 1))
    for quantity in ("squared norm of the stream", "norm Jacobian", "theory gradient"):
        assert list(found.along("layer", quantity)) == [1, 2, 3]
    sums = ResultTable(measure_sums(CONTEXT, 1))
    attention, feed_forward = (
        sums.sample("squared norm before the norm", layer=1, kind=kind).mean for kind in ("attention", "feed-forward")
    )
    assert 1 < attention < feed_forward
    streams = [sample.mean for sample in found.along("layer", "squared norm of the stream").values()]
    jacobians = [sample.mean for sample in found.along("layer", "norm Jacobian").values()]
    assert streams == sorted(streams)
    assert jacobians == sorted(jacobians, reverse=True)


def test_the_gradient_is_that_of_the_last_matrix() -> None:
    stack = theory_stack("post-ln", 2, 16, seed=1)
    record = run_theory(stack, gaussian_inputs(4, 16, 16, seed=1), "squared")
    gradient = stack.layers[-1].sublayers[1].outer.grad  # type: ignore[union-attr]
    expected = gradient.norm().item() / (16 * math.sqrt(math.log(16)))  # type: ignore[union-attr, operator]
    found = ResultTable(measure_widths(CONTEXT, 1))
    assert found.sample("last gradient ÷ d √ln d", width=16).mean == pytest.approx(expected)
    assert squared_norm(record.output.value).mean().item() == pytest.approx(1, rel=1e-3)
