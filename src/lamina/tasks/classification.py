"""Classification of sentence pairs (paraphrase, entailment), evaluated by accuracy and F1.

<cls> first … <sep> second … <sep>          segment 0 up to the first <sep>, then segment 1
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from lamina.data.batches import Batch
from lamina.data.examples import Examples
from lamina.data.packed import Integers, append, join, prepend
from lamina.data.tokenizer import CLS, SEP
from lamina.model.modes import evaluation_mode
from lamina.model.options import ModelChoices
from lamina.options import mistake
from lamina.tasks.base import MAX_TOKENS, Inputs, Losses, Task, Vocabulary, tensor_of
from lamina.tasks.metrics import accuracy, f1


class Classification(Task):
    name = "classification"
    embedded = "embedded-paraphrases"
    fields = ("first", "second", "label")
    predicted = "label"
    model_kind = "encoder"
    head = "classes"
    metric = "accuracy"
    higher_is_better = True
    num_segments = 2

    @classmethod
    def complete_model(cls, choices: ModelChoices, vocabulary: Vocabulary) -> dict[str, Any]:
        if choices.num_segments not in (None, 0, 2):
            raise mistake("a pair of sentences has 2 segments, or 0 for none", "num_segments", choices.num_segments)
        return super().complete_model(choices, vocabulary)

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(len(self.store.tokenizer()), num_classes=len(self.store.labels))

    def sizes(self, examples: Examples) -> Integers:
        return examples.lengths("first") + examples.lengths("second") + 3

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        first, second = append(prepend(batch["first"], CLS), SEP), append(batch["second"], SEP)
        whole = join(first, second)
        zeros, ones = first.with_ids(np.zeros_like(first.ids)), second.with_ids(np.ones_like(second.ids))
        return Inputs(
            {"tokens": tensor_of(whole), "segments": tensor_of(join(zeros, ones))},
            {"lengths": whole.lengths},
            labels=tensor_of(batch["label"]),
            count=len(batch),
        )

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        assert inputs.labels is not None
        loss = F.cross_entropy(model(**inputs.arguments), inputs.labels, reduction="sum")
        return Losses(loss, loss.detach(), inputs.count)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        predicted, correct = [], []
        total = 0.0
        with evaluation_mode(model):
            for _, inputs in self.every_batch(model, split, max_tokens):
                assert inputs.labels is not None
                scores = model(**inputs.arguments)
                total += F.cross_entropy(scores, inputs.labels, reduction="sum").item()
                predicted.append(scores.argmax(-1).cpu().numpy())
                correct.append(inputs.labels.cpu().numpy())
        guesses, labels = np.concatenate(predicted), np.concatenate(correct)
        loss = total / len(labels)
        return {"loss": loss, "nll": loss, "accuracy": accuracy(guesses, labels), "f1": f1(guesses, labels)}
