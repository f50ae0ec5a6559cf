"""Relative gradients along the sub-layers."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from lamina.studies.papers.initial_models import initial_subject, record_stacks
from lamina.studies.papers.relative_gradients import first_to_last, measure_relative_gradients
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext


def test_gradients_are_divided_by_the_largest_in_the_network(tmp_path: Path) -> None:
    subject = initial_subject(StudyContext(tmp_path, "micro"), "post-ln", (2, 2))
    found = ResultTable(measure_relative_gradients(subject, 1, scheme="post-ln"))
    stacks = record_stacks(subject, 1)
    norms = {name: [each.after[0].gradient_norm for each in stack.sublayers] for name, stack in stacks.items()}
    largest = max(norm for line in norms.values() for norm in line)  # type: ignore[type-var]
    third = found.sample("gradient", stack="decoder", sublayer=3, layer=1, kind="feed-forward").mean
    assert third == pytest.approx(norms["decoder"][2] / largest)  # type: ignore[operator]
    first, last = norms["decoder"][0], norms["decoder"][-1]
    assert first_to_last(found, "decoder", scheme="post-ln").mean == pytest.approx(first / last)  # type: ignore[operator]
    left = [norms["decoder"][at - 1] / norms["decoder"][at] for at in (1, 4)]  # type: ignore[operator]
    share = found.sample("share left", stack="decoder", kind="cross-attention").mean
    assert share == pytest.approx(median(left))
