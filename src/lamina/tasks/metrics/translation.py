"""BLEU and chrF by sacreBLEU, with the signature that makes a score comparable.

`bleu` is on plain text: tokenised by 13a, mixed case. `bleu-tok` is on text that is tokenised already, as the papers'
IWSLT numbers are: no tokenisation of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Bleu = Literal["bleu", "bleu-tok"]


@dataclass(frozen=True)
class Score:
    value: float
    signature: str


def signatures(kind: Bleu) -> dict[str, str]:
    """How the scores are computed, as sacreBLEU writes it."""
    return {"bleu": bleu(["a"], ["a"], kind).signature, "chrf": chrf(["a"], ["a"]).signature}


def bleu(hypotheses: Sequence[str], references: Sequence[str], kind: Bleu = "bleu") -> Score:
    """Corpus BLEU, in points of 100."""
    from sacrebleu.metrics.bleu import BLEU

    # force: sacreBLEU warns when text looks tokenised, which is the very point of bleu-tok.
    metric = BLEU(tokenize="13a" if kind == "bleu" else "none", force=kind == "bleu-tok")
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2, in points of 100."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))
