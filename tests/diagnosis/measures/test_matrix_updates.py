from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.matrix_updates import MatrixUpdates
from lamina.diagnosis.watching.observation import MatrixObservation, Observation
from support.recorded import fact, line


def matrix(kind: str, gradient: float, update: float, **where: object) -> MatrixObservation:
    location = Location(stack="decoder", layer=1, matrix=kind).model_copy(update=where)
    return MatrixObservation(
        location=location, gradient_norm=gradient, update_norm=update, relative_update=update, learning_rate=1e-3
    )


def test_norms_are_relative_to_the_largest() -> None:
    matrices = (matrix("query", 1.0, 0.5), matrix("value", 4.0, 1.0), matrix("inner", 9.0, 9.0))
    history = [Observation(step=step, matrices=matrices) for step in (100, 200)]
    found = MatrixUpdates().take(Evidence(history=history))
    assert line(found, matrix="query", quantity="gradient") == (0.25, 0.25)
    assert line(found, matrix="query", quantity="update") == (0.5, 0.5)
    assert line(found, matrix="value", quantity="update") == (1.0, 1.0)
    assert found.measured[0].x == (100, 200)
    assert (fact(found, "largest/least", quantity="gradient"), fact(found, "largest/least", quantity="update")) == (
        4,
        2,
    )


def test_lines_are_means_over_layers_and_cross_attention_is_apart() -> None:
    matrices = (
        matrix("query", 4.0, 1.0),
        matrix("query", 2.0, 1.0, layer=2),
        matrix("query", 1.0, 1.0, sublayer_kind="cross-attention"),
    )
    found = MatrixUpdates().take(Evidence(history=[Observation(step=1, matrices=matrices)]))
    assert line(found, quantity="gradient", sublayer_kind=None) == (0.75,)
    assert line(found, quantity="gradient", sublayer_kind="cross-attention") == (0.25,)


def test_without_attention_it_is_not_measured() -> None:
    history = [Observation(step=1, matrices=(matrix("inner", 1.0, 1.0),))]
    with pytest.raises(NotMeasurable, match="no query, key, value or output matrix"):
        MatrixUpdates().take(Evidence(history=history))
