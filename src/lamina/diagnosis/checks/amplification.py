"""How much does a small update shake the output, and how does that grow with depth?

By Liu et al. 2020 (Theorem 2) the change of the output is C·Σβᵢᵢ², β_ii the share of the newest branch. Where every
branch counts the same, as in a pre-LN without embedding, the sum is 1 + 1/2 + … + 1/n, of order ln n; in post-LN every
term is the same, and the sum of order n. So the sum is divided by Σ1/i, which takes the harmless part of depth out.
The theorem is about a single stream: where further ones lead to the output, as in ResiDual, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.checks.evidence import Evidence, facts_ending, grade, line, number
from lamina.diagnosis.results import Measure, Verdict
from lamina.diagnosis.thresholds import VerdictOptions


def judge(evidence: Evidence, options: VerdictOptions) -> Iterator[Verdict]:
    measure = evidence.get("layer-dependency")
    for stack, total in facts_ending(measure, " Σβᵢᵢ²").items() if measure else ():
        assert measure is not None
        if _has_further_streams(evidence, stack):
            continue
        value = _relative(measure, stack, total)
        severity = grade(value, options.amplification_warning, options.amplification_failure)
        threshold = options.amplification_failure if severity == "failure" else options.amplification_warning
        found = (
            f"an update moves the output of the {stack} as Σβᵢᵢ² = {number(total)}, {number(value)} of what branches "
            "that count alike would give"
        )
        advice = ""
        if severity != "fine":
            found += f", above {number(threshold)}: it amplifies small changes{_order(evidence)}"
            advice = f"{evidence.cures('amplification')} damp it; else a lower rate and a longer warm-up"
        yield Verdict(
            kind="amplification",
            severity=severity,
            sentence=found,
            advice=advice,
            value=value,
            threshold=threshold,
            where=stack,
        )


def _relative(measure: Measure, stack: str, total: float) -> float:
    diagonal = line(measure, stack)
    assert diagonal is not None
    return total / sum(1 / place for place in range(1, len(diagonal.y) + 1))


def _has_further_streams(evidence: Evidence, stack: str) -> bool:
    """Streams after the first are labelled by the stack and their own name, where a gradient comes back to them."""
    gradients = evidence.get("gradient-along-stream")
    return gradients is not None and any(each.label.startswith(f"{stack} ") for each in gradients.measured)


def _order(evidence: Evidence) -> str:
    """From the output change against depth, where models of several depths could be made."""
    measure = evidence.get("output-change")
    if measure is None:
        return ""
    linear, logarithmic = facts_ending(measure, " R² of n"), facts_ending(measure, " R² of ln n")
    for label, fit in linear.items():
        other = logarithmic.get(label, float("-inf"))
        order, best = ("n", fit) if fit > other else ("ln n", other)
        return f", of order {order} in the number of sub-layers (R² {number(best)})"
    return ""
