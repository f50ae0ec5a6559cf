"""The measure `weight-tying`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.weight_tying import EQUAL, TIED, WeightTying
from lamina.studies.faults.models import plain_trial
from support.recorded import fact


@pytest.mark.parametrize(("kind", "expected"), [("tied", (1.0, 1.0)), ("copied", (0.0, 1.0)), ("separate", (0.0, 0.0))])
def test_one_matrix_or_two(kind: str, expected: tuple[float, float]) -> None:
    model = plain_trial().model
    if kind == "tied":
        model.head.weight = model.embedding.weight
    elif kind == "copied":
        model.head.load_state_dict(model.embedding.state_dict())  # type: ignore[operator]
    found = WeightTying().take(Evidence(model=model))
    assert (fact(found, TIED, module="head"), fact(found, EQUAL)) == expected
