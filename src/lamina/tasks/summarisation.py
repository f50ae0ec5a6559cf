"""Headlines from paragraphs, scored by ROUGE F1."""

from __future__ import annotations

from lamina.tasks.metrics.summary import rouge
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


class Summarisation(SequenceToSequence):
    class Options(SequenceOptions):
        length_factor: float = 1.0
        """Generated text may be this many times as long as its source …"""

    name = "summarisation"
    embedded = "embedded-headlines"
    metric = "rougeL"
    options: Options

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        return rouge(hypotheses, references)
