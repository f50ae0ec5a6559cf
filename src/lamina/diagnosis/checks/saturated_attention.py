"""Is the softmax of attention saturated, so that queries and keys get no gradient?

The entropy of the attention weights is near 1 at initialisation, where all keys are attended to alike. A layer whose
heads attend to single keys before training has learnt anything has logits that are too large: the product of queries
and keys was not divided by √d, or their matrices are too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact, Measurement
from lamina.diagnosis.measures.attention_entropy import ENTROPY
from lamina.diagnosis.measures.attention_logits import LARGEST_LOGIT
from lamina.diagnosis.results import Code, Finding, Remedy, Setting
from lamina.formatting import short
from lamina.options import Options

FOREIGN_REMEDIES: tuple[Remedy, ...] = (
    Code(
        line="scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5",
        words="in the attention module, if its logits are not divided by √d",
    ),
    Code(
        line="query, key = (torch.nn.functional.rms_norm(each, each.shape[-1:]) for each in (query, key))",
        words="QK-norm, before their product",
    ),
)
"""Of Lamina's own attention, which divides by √d, logits are too large only if its matrices are."""


class SaturatedAttention(Check):
    class Thresholds(Options):
        entropy: PositiveFloat = 0.6
        """The mean entropy of a layer's heads as a share of ln n, below which it is a warning, if its logits are large
        as well. Newly initialised models that train have at least 0.9."""
        logit: PositiveFloat = 8.0
        """The largest logit of a layer from which on a low entropy is due to its logits."""

    reads = ("attention-entropy", "attention-logits")
    position = 90

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement, logits = evidence.get("attention-entropy"), evidence.get("attention-logits")
        stacks: dict[str | None, list[Fact]] = {}
        for fact in measurement.find_facts(ENTROPY) if measurement else ():
            if not isnan(fact.value):
                stacks.setdefault(fact.location.stack, []).append(fact)
        for facts in stacks.values():
            yield self._judge_stack(facts, logits, thresholds, own=bool(evidence.schemes))

    def _judge_stack(
        self, facts: list[Fact], logits: Measurement | None, thresholds: Thresholds, *, own: bool
    ) -> Finding:
        worst = min(facts, key=lambda each: each.value)
        largest = logits.fact(LARGEST_LOGIT, module=worst.location.module) if logits else None
        saturated = worst.value < thresholds.entropy and (largest is None or largest > thresholds.logit)
        many = sum(each.value < thresholds.entropy for each in facts)
        sentence = f"the attention of {worst.location.module} has {short(worst.value)} of the largest possible entropy"
        sentence += "" if largest is None else f", with logits up to {short(largest)}"
        if saturated:
            sentence += f": its softmax is saturated, as in {many} of {len(facts)} attention modules of the stack"
        return self.finding(
            "warning" if saturated else "fine",
            sentence,
            location=worst.location,
            value=worst.value,
            threshold=thresholds.entropy,
            remedies=(Setting(key="model.init", value="xavier"),) if own else FOREIGN_REMEDIES,
        )
