"""The metrics of the papers, one function each, computed by the libraries that the papers use.

BLEU and chrF come from sacreBLEU, with the signature that makes a score comparable; ROUGE from `rouge-score`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LabelArray = NDArray[np.int64]
Bleu = Literal["bleu", "bleu-tok"]
"""`bleu` tokenises plain text by 13a and keeps case. `bleu-tok` adds no tokenisation, for text that is tokenised
already, as in the papers' IWSLT results."""
ROUGE = ("rouge1", "rouge2", "rougeL")


def accuracy(predicted: LabelArray, correct: LabelArray) -> float:
    """The share of correct labels, in percent."""
    return 100 * float((predicted == correct).mean()) if len(correct) else 0.0


def f1(predicted: LabelArray, correct: LabelArray, positive: int = 1) -> float:
    """The harmonic mean of precision and recall of one label, in percent; 0 where it never occurs."""
    hits = int(((predicted == positive) & (correct == positive)).sum())
    guessed, present = int((predicted == positive).sum()), int((correct == positive).sum())
    return 200 * hits / (guessed + present) if guessed + present else 0.0


def f1_macro(predicted: LabelArray, correct: LabelArray) -> float:
    """The mean over all labels that occur, predicted or correct, of the F1 of each, in percent."""
    present = np.union1d(predicted, correct)
    return sum(f1(predicted, correct, label) for label in present) / len(present) if len(present) else 0.0


def f1_micro(predicted: LabelArray, correct: LabelArray) -> float:
    """F1 of the counts summed over all labels, in percent; with one label per example it equals the accuracy."""
    hits = int((predicted == correct).sum())
    return 200 * hits / (len(predicted) + len(correct)) if len(correct) else 0.0


def rouge(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L: F1 with stemming, mean over examples, in percent."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(ROUGE, use_stemmer=True)
    scores = [scorer.score(reference, text) for text, reference in zip(hypotheses, references, strict=True)]
    return {kind: 100 * sum(score[kind].fmeasure for score in scores) / max(1, len(scores)) for kind in ROUGE}


@dataclass(frozen=True)
class SacreBleuScore:
    """A score of sacreBLEU, in percent, and the signature that says how it was computed."""

    value: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], kind: Bleu = "bleu") -> SacreBleuScore:
    """Corpus BLEU."""
    from sacrebleu.metrics.bleu import BLEU

    # force: sacreBLEU warns when text looks tokenised, which is what bleu-tok is for.
    metric = BLEU(tokenize="13a" if kind == "bleu" else "none", force=kind == "bleu-tok")
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(score.score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> SacreBleuScore:
    """Corpus chrF2."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(score.score, str(metric.get_signature()))


def sentence_scores(hypothesis: str, reference: str, kind: Bleu = "bleu") -> dict[str, float]:
    """BLEU and chrF2 of one sentence as sacreBLEU computes them: BLEU smoothed, over the n-grams that it is long enough
    for."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = BLEU(tokenize="13a" if kind == "bleu" else "none", force=True, effective_order=True)
    return {
        "bleu": metric.sentence_score(hypothesis, [reference]).score,
        "chrf": CHRF().sentence_score(hypothesis, [reference]).score,
    }


def signatures(kind: Bleu) -> dict[str, str]:
    """The signatures of BLEU and chrF, as sacreBLEU writes them."""
    return {"bleu": bleu(["a"], ["a"], kind).signature, "chrf": chrf(["a"], ["a"]).signature}


WordNormalisation = Literal["none", "lower-case, no punctuation"]


def error_rates(
    hypotheses: Sequence[str], references: Sequence[str], normalisation: WordNormalisation = "none"
) -> dict[str, float]:
    """The word and the character error rate by jiwer, over the whole set, in percent.

    Substitutions, deletions and insertions divided by the words or characters of the references; it may exceed 100.
    """
    import jiwer

    given = [_normalise(text, normalisation) for text in hypotheses]
    wanted = [_normalise(text, normalisation) for text in references]
    return {"wer": 100 * jiwer.wer(wanted, given), "cer": 100 * jiwer.cer(wanted, given)}


def error_rate_signatures(normalisation: WordNormalisation) -> dict[str, str]:
    """The signatures of the error rates, by their names."""
    from importlib.metadata import version

    text = f"jiwer {version('jiwer')} | white space collapsed, other normalisation: {normalisation}"
    return {"wer": text, "cer": text}


def _normalise(text: str, normalisation: WordNormalisation) -> str:
    if normalisation != "none":
        text = "".join(letter for letter in text.lower() if not unicodedata.category(letter).startswith("P"))
    return " ".join(text.split())
