"""The measure `adam-rms`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measures.adam_rms import AdamRms
from lamina.diagnosis.measures.base import NotMeasurable
from support.optimised import evidence
from support.recorded import line


def test_the_second_moment_is_known_after_a_step() -> None:
    with pytest.raises(NotMeasurable, match="made steps"):
        AdamRms().take(evidence("adam"))
    given = evidence("adam", steps=2)
    found = AdamRms().take(given)
    largest = max(given.planned.adam_rms[each] for each in given.model.layers[0].parameters() if each.dim() == 2)  # type: ignore[union-attr, index]
    assert line(found, stack="stack")[0] == largest
