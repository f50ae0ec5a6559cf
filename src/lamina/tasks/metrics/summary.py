"""ROUGE-1, ROUGE-2 and ROUGE-L, F1, by the `rouge-score` package with stemming, mean over examples."""

from __future__ import annotations

from collections.abc import Sequence

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """In points of 100."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(KINDS, use_stemmer=True)
    scores = [scorer.score(reference, text) for text, reference in zip(hypotheses, references, strict=True)]
    return {kind: 100 * sum(score[kind].fmeasure for score in scores) / max(1, len(scores)) for kind in KINDS}
