"""Does the gradient vanish towards the first layer, in which layer, and at which norms?

The gradient norm over a layer's weight matrices is compared with that of the last layer. Xiong et al. 2020 (supplement)
and Xie et al. 2023 derive a decay for every stack of post-LN; Liu et al. 2020 measure one only in decoders, at
cross-attention, and so do our runs. A stack without cross-attention is not expected to vanish before training.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import GENTLE, Check, CheckEvidence, GentleTraining, gentle_settings, grade
from lamina.diagnosis.measurement import FactName, Location, Measurement
from lamina.diagnosis.measures.gradient_along_stream import BELOW_TO_ABOVE
from lamina.diagnosis.measures.gradient_at_norms import INPUT_TO_OUTPUT
from lamina.diagnosis.measures.layer_gradients import WeakestLayer, norms_over_kinds, weakest_layer
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short


class Vanishing(Check):
    class Thresholds(GentleTraining):
        warning: PositiveFloat = 0.3
        """A layer's gradient norm relative to the last layer's, below which it is a warning: in Liu et al. 2020, figure
        3, only the decoders of post-LN are below it."""
        failure: PositiveFloat = 0.1
        """The same ratio, below which the layer hardly learns and training is expected to fail. Calibrated on small
        runs, see lamina.studies.calibration."""
        shrinking: PositiveFloat = 0.97
        """A kind of sub-layer after which less than this share of the gradient norm is left is named as the cause."""

    reads = ("gradient-by-layer", "gradient-along-stream", "gradient-at-norms")
    predicts_failure = True
    position = 30

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("gradient-by-layer")
        norms = norms_by_stack(measurement) if measurement else {}
        for stack, layers in norms.items():
            location = Location(stack=stack)
            if len(layers) < 2:
                reason = f"the {stack} has fewer than two layers with comparable gradients"
                yield self.finding("not measured", reason, location=location)
            elif any(map(isnan, layers.values())):
                yield self.finding("not measured", f"gradients of the {stack} are not numbers", location=location)
            else:
                yield self._judge_stack(stack, weakest_layer(layers), evidence, thresholds)

    def _judge_stack(
        self, stack: str, weakest: WeakestLayer, evidence: CheckEvidence, thresholds: Thresholds
    ) -> Finding:
        layer, last, share = weakest
        if isnan(share):
            return self._without_gradient(stack, evidence)
        severity = grade(1 / share if share else float("inf"), 1 / thresholds.warning, 1 / thresholds.failure)
        threshold = thresholds.failure if share <= thresholds.failure else thresholds.warning
        gentle = severity == "failure" and evidence.trains_gently(thresholds)
        location = Location(stack=stack, layer=layer)
        sentence = f"the gradient norm of {location} is {short(share)} of layer {last}'s"
        if severity == "fine":
            sentence += f", above the threshold of {short(threshold)}: the gradient of the {stack} does not vanish"
        else:
            cause = _cause(evidence, stack, thresholds.shrinking)
            sentence += f", below the threshold of {short(threshold)}: the gradient vanishes {cause}"
        return self.finding(
            "warning" if gentle else severity,
            sentence + (GENTLE if gentle else ""),
            location=location,
            value=share,
            threshold=threshold,
            remedies=(
                *gentle_settings(thresholds),
                evidence.schemes_that_avoid("vanishing"),
            ),
        )

    def _without_gradient(self, stack: str, evidence: CheckEvidence) -> Finding:
        """The finding for a stack without gradient, which is expected only if branches are initialised to zero."""
        return self.finding(
            "fine" if evidence.schemes else "warning",
            f"no gradient reaches the layers of the {stack}; this is expected where branches are initialised to zero, "
            "and ends with the first steps",
            location=Location(stack=stack),
            remedies=(
                Action(text="diagnose again after a few steps: a stack that still has no gradient is disconnected"),
            ),
        )


def norms_by_stack(measurement: Measurement) -> dict[str, dict[int, float]]:
    """The gradient norms over all kinds of matrices, by stack and layer."""
    norms: dict[tuple[str, str], dict[int, float]] = {}
    for series in measurement.measured:
        if series.location.stack is not None and series.location.matrix is not None:
            layers = {int(layer): norm for layer, norm in zip(series.x, series.y, strict=True)}
            norms[series.location.stack, series.location.matrix] = layers
    return norms_over_kinds(norms)


def _cause(evidence: CheckEvidence, stack: str, shrinking: float) -> str:
    """The kind of sub-layer that reduces the gradient most, and whether its norms are the cause."""
    left = _by_kind(evidence.get("gradient-along-stream"), BELOW_TO_ABOVE, stack)
    if not left:
        return "towards the first layer"
    kind = min(left, key=lambda each: left[each])
    if left[kind] >= shrinking:
        return "towards the first layer, at no kind of sub-layer in particular"
    at_norms = _by_kind(evidence.get("gradient-at-norms"), INPUT_TO_OUTPUT, stack)
    where = "at the norms after" if kind in at_norms and at_norms[kind] < shrinking else "at"
    return f"{where} {kind}, each of which leaves {short(left[kind])} of it"


def _by_kind(measurement: Measurement | None, name: FactName, stack: str) -> dict[str, float]:
    """The facts of a stack by kind of sub-layer."""
    facts = measurement.find_facts(name, stack=stack) if measurement else []
    return {
        each.location.sublayer_kind: each.value
        for each in facts
        if each.location.sublayer_kind is not None and not isnan(each.value)
    }
