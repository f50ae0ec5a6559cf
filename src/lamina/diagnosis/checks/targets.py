"""Are the targets the tokens that the model should predict, and can it see them?

A language model predicts the next token: targets that are the token itself, or one further away, were shifted wrongly,
and a model whose output depends on later tokens reads the answer. Masked language models ignore most targets and hide
the others, so that nothing matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.information_leak import LATER, OTHERS
from lamina.diagnosis.measures.information_leak import PADDING as PADDING_SEEN
from lamina.diagnosis.measures.target_alignment import IGNORED, PADDING, REPEATS, SAME_CLASSES
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options

MEANING = {-1: "the token before", 0: "the token itself", 2: "the token after the next", 3: "the third token after it"}


class WrongTargets(Check):
    class Thresholds(Options):
        matching: PositiveFloat = 0.9
        """The share of targets that equal the token at an offset, from which on they are taken for that token."""
        unrelated: PositiveFloat = 0.2
        """The share below which targets are related to no token of the input."""
        padding: PositiveFloat = 0.2
        """The share of padding among the targets that count, from which on it is a warning."""
        leak: PositiveFloat = 1e-3
        """The relative change of outputs by other tokens that they should not see; rounding is far below it."""

    reads = ("target-alignment", "information-leak")
    predicts_failure = True
    position = 96

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        aligned, leak = evidence.get("target-alignment"), evidence.get("information-leak")
        shares = (
            {int(k): share for each in aligned.series for k, share in zip(each.x, each.y, strict=True)}
            if aligned
            else {}
        )
        facts = {each.name: each.value for each in aligned.facts} if aligned else {}
        found: list[Finding] = []
        predicts_next = shares.get(1, 0.0) >= thresholds.matching
        if shares and facts[SAME_CLASSES] and facts[IGNORED] < 0.5 and not predicts_next:
            found += self._judge_shares(shares, facts[REPEATS] == 1, thresholds)
        if facts.get(PADDING, 0.0) > thresholds.padding:
            found.append(self._counted_padding(facts[PADDING], thresholds.padding))
        later = leak.find_facts(LATER) if leak else []
        if predicts_next and later and later[0].value > thresholds.leak:
            found.append(self._sees_targets(later[0].value, thresholds.leak))
        padded = leak.find_facts(PADDING_SEEN) if leak else []
        if padded and padded[0].value > thresholds.leak:
            found.append(self._sees_padding(padded[0].value, thresholds.leak))
        others = leak.find_facts(OTHERS) if leak else []
        if others and others[0].value > thresholds.leak:
            found.append(self._sees_others(others[0].value, thresholds.leak))
        yield from found or [self._fine(shares, predicts_next)]

    def _judge_shares(self, shares: Mapping[int, float], repeats: bool, thresholds: Thresholds) -> Iterator[Finding]:
        best = max((each for each in shares if each != 1), key=lambda each: shares[each])
        if shares[best] >= thresholds.matching:
            yield self.finding(
                "failure",
                f"the target of a position is {MEANING[best]} in {shares[best]:.0%} of all cases, not the next one: "
                f"labels are shifted by {best} instead of 1",
                value=shares[best],
                threshold=thresholds.matching,
                remedies=(
                    Action(
                        text="shift labels once: compare logits[:, :-1] with tokens[:, 1:], and give models of "
                        "transformers labels=input_ids, which they shift themselves"
                    ),
                ),
            )
        elif repeats and max(shares.values()) < thresholds.unrelated:
            yield self.finding(
                "warning",
                f"at most {short(max(shares.values()))} of the targets are a token near their position, though classes "
                "and tokens are the same vocabulary: targets do not belong to this input",
                value=max(shares.values()),
                threshold=thresholds.unrelated,
                remedies=(Action(text="check that inputs and labels are shuffled together"),),
            )

    def _counted_padding(self, share: float, threshold: float) -> Finding:
        return self.finding(
            "warning",
            f"{short(share)} of the targets that count in the loss are padding, above the threshold of "
            f"{short(threshold)}",
            value=share,
            threshold=threshold,
            remedies=(Action(text="set the labels of padding to -100, or ignore_index to the padding token"),),
        )

    def _sees_targets(self, change: float, threshold: float) -> Finding:
        return self.finding(
            "failure",
            f"other tokens in the second half of a sequence change the outputs of the first half by {short(change)}, "
            "though the targets are the next tokens: the causal mask is missing or wrong; the model reads the answer",
            value=change,
            threshold=threshold,
            remedies=(
                Action(text="give attention a causal mask (is_causal=True); in torch's layers True means hidden"),
            ),
        )

    def _sees_padding(self, change: float, threshold: float) -> Finding:
        return self.finding(
            "warning",
            f"other values of padding change the outputs of real positions by {short(change)}: padding is attended",
            value=change,
            threshold=threshold,
            remedies=(Action(text="pass the padding mask: attention_mask=…, or src_key_padding_mask=… of torch"),),
        )

    def _sees_others(self, change: float, threshold: float) -> Finding:
        return self.finding(
            "failure",
            f"other sequences of the batch change the outputs of a sequence by {short(change)}: batch and positions "
            "are mixed up",
            value=change,
            threshold=threshold,
            remedies=(Action(text="check batch_first of torch's attention, and every view, reshape and transpose"),),
        )

    def _fine(self, shares: Mapping[int, float], predicts_next: bool) -> Finding:
        share = shares.get(1, 0.0)
        sentence = (
            "targets are the next tokens, and outputs do not depend on them"
            if predicts_next
            else ("no target is given away by the tokens near its position")
        )
        return self.finding("fine", sentence, value=share, threshold=0.0)
