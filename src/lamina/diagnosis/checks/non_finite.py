"""Is a value NaN or infinite, and in which module does that begin?

The module is the first one in the order of the forward pass whose output is not finite or, if all outputs are, the
first one in the order of the backward pass whose gradient is not. The range of its input and of its parameters tells
whether the precision was exceeded or an operation such as 0 ÷ 0, log 0 or a softmax over nothing was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, isnan

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact, Location, Measurement
from lamina.diagnosis.measures.module_ranges import INPUT, LIMIT, OUTPUT, PARAMETERS, RECOVERED
from lamina.diagnosis.results import Action, Finding, Setting
from lamina.formatting import short

HALF_PRECISION = 65504.0


class NonFiniteValues(Check):
    reads = ("module-ranges",)
    predicts_failure = True
    position = 5

    def judge(self, evidence: CheckEvidence, thresholds: Check.Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("module-ranges")
        if measurement is None:
            return
        found = measurement.find_facts(LIMIT)
        if found:
            yield self._name_module(found[0], measurement)
            return
        for series in measurement.select(quantity=OUTPUT):
            yield self.finding(
                "fine",
                f"all outputs and gradients of the {series.location.stack} are finite, up to {short(max(series.y))}",
                location=series.location,
                value=max(series.y),
                threshold=0.0,
            )

    def _name_module(self, limit: Fact, measurement: Measurement) -> Finding:
        location, kind = limit.location, limit.quantity
        given = measurement.fact(INPUT, quantity=kind, module=location.module)
        own = measurement.fact(PARAMETERS, quantity=kind, module=location.module) or 0.0
        half = limit.value <= HALF_PRECISION
        if kind == "loss":
            sentence = (
                "the loss is not finite, though the outputs of all modules are: it arises in the loss function, which "
                f"reads values up to {short(given or 0.0)}"
            )
        else:
            what = {"output": "output", "gradient": "gradient at the output", "parameter gradient": "weight gradient"}
            sentence = f"the first value that is NaN or infinite is the {what[kind]} of {_name(location)}"
            sentence += "" if given is None else f": the largest number of its input {_range(given)}"
            sentence += f"{',' if given is not None else ':'} that of its parameters {_range(own)}"
            sentence += f", and its precision ends at {short(limit.value, 5)}" if half else ""
        if kind == "output" and given is not None and not isfinite(given):
            sentence += "; so it arises in the code before this module, which computes its input"
        recovered = measurement.fact(RECOVERED)
        if recovered is not None:
            sentence += f"; values were finite again at step {recovered:,.0f}"
        return self.finding(
            "failure" if recovered is None else "warning",
            sentence,
            location=location,
            value=given,
            threshold=limit.value,
            remedies=_remedies(location, kind, half),
        )


def _name(location: Location) -> str:
    layer = f" (layer {location.layer} of the {location.stack})" if location.layer is not None else ""
    return f"{location.module or 'the model'}{layer}"


def _range(value: float) -> str:
    if isnan(value):
        return "is NaN"
    return f"is {short(value)}" if isfinite(value) else "is infinite"


def _remedies(location: Location, kind: str, half: bool) -> tuple[Action | Setting, ...]:
    place = location.module or "the loss"
    if half:
        return (
            Setting(key="train.precision", value="bf16"),
            Action(text=f"compute {place} in fp32, or scale its input down"),
        )
    if kind == "loss":
        return (Action(text="examine the loss for log(0), 0 ÷ 0, and batches in which every label is ignored"),)
    return (
        Action(
            text=f"examine {place} for log(0), 0 ÷ 0, the root of 0 in the backward pass, and a softmax in which every "
            "position is masked"
        ),
    )
