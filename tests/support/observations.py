"""Observations of a watched run, made by hand."""

from __future__ import annotations

from typing import Any

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.watching.observation import MatrixObservation, Observation


def matrix(layer: int | None, gradient: float, update: float | None = 0.1, **where: Any) -> MatrixObservation:
    location = Location(**{"stack": "decoder", "layer": layer, "matrix": "outer"} | where)
    return MatrixObservation(
        location=location, gradient_norm=gradient, update_norm=1.0, relative_update=update, learning_rate=1e-3
    )


def observation(step: int, *matrices: MatrixObservation, **others: Any) -> Observation:
    return Observation(step=step, matrices=matrices, output_stack="decoder", **others)
