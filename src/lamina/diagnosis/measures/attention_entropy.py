"""The entropy of the attention weights of every head.

    −Σ p ln p ÷ ln n, the mean over queries that see n ≥ 2 keys

Zhai et al. 2023, section 3: heads whose entropy collapses precede divergence. 1 is attention to all keys alike, 0 to a
single one. Fact of each layer: `entropy`, the mean over heads, at its attention module.
"""

from __future__ import annotations

from statistics import fmean

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement
from lamina.diagnosis.measures.attention_logits import attention_of, by_layer
from lamina.diagnosis.measures.base import Evidence, Measure

ENTROPY = FactName("entropy")


class AttentionEntropy(Measure):
    title = "Entropy of attention"
    formula = "−Σ p ln p ÷ ln n of every head"
    source = "Zhai et al. 2023, section 3"
    look_for = (
        "At initialisation heads attend to all keys almost alike, near 1. A layer near 0 attends to single keys: its "
        "softmax is saturated, and queries and keys get hardly any gradient."
    )
    axes = Axes(x="layer", y="entropy, share of ln n")
    needs = ("record",)
    position = 47

    def take(self, evidence: Evidence) -> Measurement:
        calls = attention_of(evidence)
        series, grids = by_layer(calls, lambda each: each.entropy, fmean)
        facts = [Fact(name=ENTROPY, location=each.location, value=each.entropy.mean().item()) for each in calls]
        return self.measurement(series, grids=grids, facts=facts)
