"""Classification of sentences or of pairs of them (paraphrase, entailment), evaluated by accuracy and F1.

<cls> first … <sep> second … <sep>          segment 0 up to the first <sep>, then segment 1
<cls> first … <sep>                         where the store has no field `second`
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from lamina.data.batches import Batch
from lamina.data.examples import Examples
from lamina.data.packed import Integers, PackedField
from lamina.data.readers.base import trim
from lamina.errors import UserError
from lamina.model.modes import evaluation_mode
from lamina.model.options import ModelChoices
from lamina.options import mistake
from lamina.tasks.base import MAX_TOKENS, Inputs, Losses, Task, Vocabulary, tensor_of
from lamina.tasks.metrics import accuracy, f1, f1_macro, f1_micro
from lamina.tasks.sentences import sentence_arguments, sentence_fields, sentence_sizes

WINDOW = 64  # texts labelled at a time
CHANCE = 0.05  # the probability with which a classifier that guesses may pass for a trained one


@dataclass(frozen=True)
class Prediction:
    """The label that a classifier gives to a text."""

    probabilities: Mapping[str, float]
    """The probability of every label, in the order of their ids."""

    @property
    def label(self) -> str:
        """The most likely label."""
        return max(self.probabilities, key=lambda name: self.probabilities[name])

    @property
    def probability(self) -> float:
        """The probability of that label."""
        return max(self.probabilities.values())


class Classification(Task):
    name = "classification"
    result_version = 3
    embedded = "embedded-paraphrases"
    fields = ("first", "label")
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

    @property
    def num_labels(self) -> int:
        return len(self.store.labels)

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(len(self.store.tokenizer()), num_classes=len(self.store.labels))

    @property
    def text_fields(self) -> tuple[str, ...]:
        """`first` and, where the store has pairs, `second`."""
        return sentence_fields(self.store)

    def sizes(self, examples: Examples) -> Integers:
        return sentence_sizes(examples, self.text_fields)

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        texts = [batch[name] for name in self.text_fields]
        return replace(sentence_arguments(texts), labels=tensor_of(batch["label"]), count=len(batch))

    @torch.no_grad()
    def predict(
        self,
        model: nn.Module,
        texts: Iterable[Sequence[str]],
        *,
        window: int | None = None,
        warn: Callable[[str], None] = warnings.warn,
    ) -> Iterator[Prediction | None]:
        """The label of each sentence, `(first,)`, or pair, `(first, second)`; None where one of its texts is blank.

        window: how many texts are read and labelled at a time.
        warn: called with a message for each text that has more tokens than the model has positions.
        """
        device = next(model.parameters()).device
        encoded = (self._encode(model, number, each, warn) for number, each in enumerate(texts, start=1))
        while chunk := list(islice(encoded, window or WINDOW)):
            known = [each for each in chunk if each is not None]
            labelled: Iterator[Prediction] = iter(())
            if known:
                inputs = sentence_arguments([PackedField.of(field) for field in zip(*known, strict=True)]).to(device)
                with evaluation_mode(model):
                    rows = model(**inputs.arguments).double().softmax(-1).cpu().tolist()
                labelled = (Prediction(dict(zip(self.store.labels, row, strict=True))) for row in rows)
            yield from (None if each is None else next(labelled) for each in chunk)

    def _encode(
        self, model: nn.Module, number: int, texts: Sequence[str], warn: Callable[[str], None]
    ) -> list[list[int]] | None:
        """The tokens of each text, the longer ones cut to the positions that the model has."""
        if len(texts) != len(self.text_fields):
            wanted = "pairs of texts" if len(self.text_fields) == 2 else "single texts"
            raise UserError(f"text {number}: this model labels {wanted}, but {len(texts)} given: {list(texts)!r:.80}")
        tokenizer = self.store.tokenizer()
        tokens = [tokenizer.encode(trim(text)) for text in texts]
        if not all(tokens):
            return None
        options: Any = model.options
        room = options.max_length - len(tokens) - 1 if options.positions == "learned" else None
        if room is not None and sum(map(len, tokens)) > room:
            warn(f"text {number}: cut to {room} tokens, because the model has {options.max_length} positions")
            while sum(map(len, tokens)) > room:
                max(tokens, key=len).pop()
        return tokens

    def texts(self, batch: Batch) -> dict[str, str]:
        tokenizer = self.store.tokenizer()
        label = self.store.labels[int(batch["label"].ids[0])]
        return {name: tokenizer.decode(batch[name].ids) for name in self.text_fields} | {"reference": label}

    def scores(self, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
        """The predicted label as the output, and its probability."""
        best = model(**inputs.arguments).double().softmax(-1)[0].max(-1)
        return {"output": self.store.labels[int(best.indices)], "probability": best.values.item()}

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        assert inputs.labels is not None
        loss = F.cross_entropy(model(**inputs.arguments), inputs.labels, reduction="sum")
        return Losses(loss, loss.detach(), inputs.count)

    def describe_failure(self, split: str, nll: float, measure: Callable[[], Mapping[str, float]]) -> str:
        """Why a classifier is no better than one that does not read the texts; empty if its loss or accuracy is better.

        Both count, because the loss of a fine-tuned classifier often rises while its accuracy does: a few labels are
        wrong, with certainty. A guess can be better than the frequencies of the labels too; each of the two tests
        accepts one with a probability of at most `CHANCE`. For the loss, that is Markov's inequality for the ratio of
        the likelihoods, whose mean under a guess is at most 1.
        """
        counts = self._frequencies(split, self.num_labels)
        examples = counts.sum()
        shares = counts[counts > 0] / examples
        entropy, majority = -(shares * np.log(shares)).sum(), shares.max()
        if examples * (entropy - nll) > -math.log(CHANCE):
            return ""
        reached = measure()["accuracy"]
        deviation = math.sqrt(majority * (1 - majority) / examples)
        if reached / 100 > majority + NormalDist().inv_cdf(1 - CHANCE) * deviation:
            return ""
        return (
            f"validation loss {nll:.3f} and accuracy {reached:.1f} on {examples:,.0f} examples are no evidence of "
            f"learning: the frequencies of the labels alone give {entropy:.3f} and {100 * majority:.1f}"
        )

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
        metrics = {"accuracy": accuracy(guesses, labels)}
        if len(self.store.labels) == 2:  # the F1 of the second label, as GLUE reports it
            metrics["f1"] = f1(guesses, labels)
        metrics |= {"f1 macro": f1_macro(guesses, labels), "f1 micro": f1_micro(guesses, labels)}
        return {"loss": loss, "nll": loss, **metrics}
