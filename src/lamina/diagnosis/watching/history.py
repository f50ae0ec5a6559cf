"""The diagnosis of a watch's observations."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.diagnosis.checks import CheckThresholds, run_checks
from lamina.diagnosis.lacking import lacking
from lamina.diagnosis.measurement import Measurement, NotMeasured, Stage
from lamina.diagnosis.measures import measures_that_need, take
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.results import Diagnosis, ModelFacts
from lamina.diagnosis.watching.observation import Observation


def diagnose_history(
    history: Sequence[Observation],
    *,
    name: str,
    model: str,
    schemes: Sequence[str] = (),
    facts: ModelFacts | None = None,
    thresholds: CheckThresholds | None = None,
) -> Diagnosis:
    """Every measure that can be taken from observations, and the findings of the checks."""
    measures = measures_that_need("history")
    if history:
        taken = [take(each, Evidence(history=history)) for each in measures]
    else:
        reason = "no step was watched: fewer steps than `every` were taken"
        taken = [NotMeasured(key=each.key, reason=reason) for each in measures]
    measurements = [each for each in taken if isinstance(each, Measurement)]
    not_measured = [each for each in taken if isinstance(each, NotMeasured)]
    return Diagnosis(
        name=name,
        model=model,
        schemes=tuple(schemes),
        output_stack=history[-1].output_stack if history else None,
        facts=facts,
        stage=Stage(name="step", step=history[-1].step) if history else Stage(name="given"),
        spread_over="steps",
        repeats=max(1, len(history)),
        findings=run_checks(
            measurements,
            [*not_measured, *lacking({"history"})],
            schemes=schemes,
            thresholds=thresholds,
            placements=[] if schemes else [None],
        ),
        measurements=tuple(measurements),
        not_measured=tuple(not_measured),
    )
