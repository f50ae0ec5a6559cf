"""The measure `gradient-coverage`."""

from __future__ import annotations

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.gradient_coverage import GradientCoverage
from lamina.diagnosis.recording.parameters import Cause, ParameterRecord
from support.recorded import mean_of


def parameter(path: str, layer: int | None, cause: Cause | None = None, numbers: int = 4, **others: object) -> object:
    return ParameterRecord(path, None if layer is None else "stack", layer, numbers, cause=cause, **others)  # type: ignore[arg-type]


def taken(*parameters: object) -> Measurement:
    return GradientCoverage().of(parameters)  # type: ignore[arg-type]


def test_the_share_of_every_layer_against_a_plain_count() -> None:
    found = taken(
        parameter("h.0.fc.weight", 0, "frozen", 6, matrix=True),
        parameter("h.0.norm.weight", 0, None, 2, matrix=False),
        parameter("h.1.fc.weight", 1, None, 6, matrix=True),
        parameter("table.weight", None, "unused", 9, matrix=True),
    )
    (line,) = found.measured
    assert (line.x, line.y) == ((1, 2), (2 / 8, 1.0))
    facts = GradientCoverage().conclude(found).facts
    assert {(each.name, each.location.module) for each in facts} == {("frozen", "h.0.fc"), ("unused", "table")}


def test_a_module_that_one_batch_uses_is_not_unused() -> None:
    """As an expert to which no token of the other batch was routed."""
    batches = [
        [taken(parameter("h.0.expert.weight", 0, cause, matrix=True), parameter("h.0.fc.weight", 0, matrix=True))]
        for cause in ("unused", None)
    ]
    (mean,) = mean_of(batches)
    assert mean.facts == ()
    assert mean.measured[0].y == (0.75,)


def test_a_bias_with_gradient_does_not_hide_its_matrix() -> None:
    weight = parameter("h.0.fc.weight", 0, "zero gain", matrix=True, because_of="h.0.norm.weight")
    found = GradientCoverage().conclude(taken(weight, parameter("h.0.fc.bias", 0, matrix=False)))
    assert [(each.name, each.quantity) for each in found.facts] == [("zero gain", "h.0.norm.weight")]
