"""Does the gradient vanish on the way down, in which layer, and at which norms?

Judged is what was measured: the gradients of a layer's weight matrices against those of the last layer. Xiong et al.
(supplement) and Xie et al. derive a decay for every stack of post-LN; Liu et al. measure one only in decoders, at
cross-attention, and so do we. A stack without cross-attention is not expected to vanish at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, nan

from lamina.diagnosis.checks.evidence import Evidence, facts_ending, grade, number
from lamina.diagnosis.measures.gradient_by_layer import Weakest, over_kinds, weakest
from lamina.diagnosis.results import Measure, Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    for stack, (layer, last, share) in weakest_layers(evidence).items():
        if isnan(share):
            yield _not_yet(evidence, stack)
            continue
        severity = grade(1 / share if share else float("inf"), *_inverse(options))
        where = f"{stack} layer {layer}"
        found = f"the gradient of {where} is {number(share)} of layer {last}'s"
        if severity == "fine":
            sentence, advice = f"{found}: no layer of the {stack} is left without gradient", ""
        else:
            place = _place(evidence, stack, options)
            sentence = f"{found}, below {number(_crossed(share, options))}: it vanishes{place}"
            advice = f"{evidence.cures('vanishing')} keep it; else a longer warm-up and fewer layers help a little"
        yield Verdict(
            kind="vanishing",
            severity=severity,
            sentence=sentence,
            advice=advice,
            value=share,
            threshold=_crossed(share, options),
            where=where,
        )


def _not_yet(evidence: Evidence, stack: str) -> Verdict:
    """Some schemes begin like that; of a foreign model nobody knows."""
    return Verdict(
        kind="vanishing",
        severity="fine" if evidence.schemes else "warning",
        sentence=f"no gradient reaches the layers of the {stack} here; where branches start at zero that is right, and "
        "ends with the first steps",
        advice="" if evidence.schemes else "look again after a few steps: a stack that still has none is cut off",
        value=nan,
        threshold=0.0,
        where=stack,
    )


def weakest_layers(evidence: Evidence) -> dict[str, Weakest]:
    """By stack, where there are layers to compare."""
    measure = evidence.get("gradient-by-layer")
    layers = gradients_by_layer(measure) if measure else {}
    return {stack: weakest(each) for stack, each in layers.items() if len(each) > 1}


def gradients_by_layer(measure: Measure) -> dict[str, dict[int, float]]:
    """By stack and layer, the norm over all kinds of matrices. Labels are a stack's name and a kind."""
    norms: dict[tuple[str, str], dict[int, float]] = {}
    for series in measure.measured:
        stack, _, kind = series.label.rpartition(" ")
        norms[stack, kind] = {int(layer): norm for layer, norm in zip(series.x, series.y, strict=True)}
    return over_kinds(norms)


def _inverse(options: VerdictOptions) -> tuple[float, float]:
    return 1 / options.vanishing_warning, 1 / options.vanishing_failure


def _crossed(share: float, options: VerdictOptions) -> float:
    return options.vanishing_failure if share <= options.vanishing_failure else options.vanishing_warning


def _place(evidence: Evidence, stack: str, options: VerdictOptions) -> str:
    """Where the gradient is lost: the kind of sub-layer that leaves least of it, and whether its norms do that."""
    stream = evidence.get("gradient-along-stream")
    steps = _of_stack(facts_ending(stream, " below/above"), stack) if stream else {}
    if not steps:
        return " on the way down"
    kind = min(steps, key=lambda each: steps[each])
    if steps[kind] >= options.shrinking:
        return " on the way down, at no kind of sub-layer in particular"
    norms = evidence.get("gradient-at-norms")
    left = _of_stack(facts_ending(norms, " input/output"), stack).get(kind) if norms else None
    where = "at the norms after" if left is not None and left < options.shrinking else "at"
    return f" {where} {kind}, each of which leaves {number(steps[kind])} of it"


def _of_stack(facts: dict[str, float], stack: str) -> dict[str, float]:
    """`decoder cross-attention` → `cross-attention`, for the facts of one stack."""
    prefix = f"{stack} "
    return {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
