"""Translation from one language into another, evaluated by BLEU and chrF."""

from __future__ import annotations

from lamina.tasks.metrics import Bleu, bleu, chrf, sentence_scores, signatures
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


class Translation(SequenceToSequence):
    class Options(SequenceOptions):
        bleu: Bleu = "bleu"
        """`bleu` for plain text, `bleu-tok` where the text is tokenised and lower-cased already."""

    name = "translation"
    embedded = "embedded-translation"
    metric = "bleu"
    options: Options

    def signatures(self) -> dict[str, str]:
        return signatures(self.options.bleu)

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        return {
            "bleu": bleu(hypotheses, references, self.options.bleu).value,
            "chrf": chrf(hypotheses, references).value,
        }

    def score_sentence(self, hypothesis: str, reference: str) -> dict[str, float]:
        return sentence_scores(hypothesis, reference, self.options.bleu)
