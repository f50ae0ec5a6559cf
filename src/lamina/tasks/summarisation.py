"""Summarisation, such as a headline for a paragraph, evaluated by ROUGE F1."""

from __future__ import annotations

from lamina.generate.options import GenerateOptions
from lamina.tasks.metrics import rouge
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


class Summarisation(SequenceToSequence):
    class Options(SequenceOptions):
        generation: GenerateOptions = GenerateOptions(length_factor=1.0)
        """Options of generation, used in evaluation and by `lamina generate`."""

    name = "summarisation"
    embedded = "embedded-headlines"
    metric = "rougeL"
    options: Options

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        return rouge(hypotheses, references)
