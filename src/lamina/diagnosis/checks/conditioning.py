"""Is Adam's update at the mercy of tiny changes of the gradient?

κ grows with the root of the number of weights; it is compared as the papers have it, for 1,024 weights. Where gradients
vanish it is α·√1024 ÷ ε, and only a small rate α, as in a warm-up, makes it harmless (Xie et al. 2023, Theorem 3.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.checks.evidence import Evidence, grade, line, number
from lamina.diagnosis.results import Verdict
from lamina.diagnosis.thresholds import VerdictOptions

WEIGHTS = 1024


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    """Per stack its worst layer; the line without gradient is α·√n ÷ ε, which tells the number n of its weights."""
    measure = evidence.get("adam-conditioning")
    if measure is None or not {"rate", "eps"} <= measure.facts.keys() or not measure.facts["eps"]:
        return
    still = WEIGHTS**0.5 * measure.facts["rate"] / measure.facts["eps"]
    for series in measure.theory:
        stack = series.label.removesuffix(" without gradient")
        measured = line(measure, stack)
        if measured is None:
            continue
        ratios = {int(layer): y / most for layer, y, most in zip(measured.x, measured.y, series.y, strict=True) if most}
        if not ratios:
            continue
        worst = max(ratios, key=lambda layer: ratios[layer])
        value = ratios[worst] * still
        severity = grade(value, options.conditioning_warning, options.conditioning_failure)
        threshold = options.conditioning_failure if severity == "failure" else options.conditioning_warning
        where = f"{stack} layer {worst}"
        rate = number(measure.facts["rate"])
        found = f"Adam's update in {where} has κ = {number(value)} for 1,024 weights at the rate {rate}"
        advice = ""
        if severity == "fine":
            found += f", below {number(threshold)}: updates follow the gradient"
        else:
            found += f", above {number(threshold)}: noise in a vanishing gradient becomes an update of full size"
            advice = (
                f"start with a warm-up of about {number(value)} steps, which brings κ to 1; "
                f"{evidence.cures('vanishing')} keep the gradient large enough"
            )
        yield Verdict(
            kind="conditioning",
            severity=severity,
            sentence=found,
            advice=advice,
            value=value,
            threshold=threshold,
            where=where,
        )
