"""The base class of translation and summarisation: pairs of sequences for an encoder–decoder.

source   w₁ … wₙ <eos>
target   <bos> v₁ … vₘ          labels   v₁ … vₘ <eos>
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field
from torch import nn

from lamina.data.batches import Batch, OrderOptions
from lamina.data.examples import Examples, example_sizes
from lamina.data.noise import drop_words
from lamina.data.packed import Integers, PackedField, append, prepend
from lamina.data.tokenizer import BOS, EOS, UNK
from lamina.generate.scoring import perplexity
from lamina.generate.search import ModelInput, generate
from lamina.model.models import EncoderDecoder
from lamina.tasks.base import MAX_TOKENS, Inputs, Losses, Vocabulary, tensor_of
from lamina.tasks.generating import GeneratingOptions, GeneratingTask, TokenIds


class SequenceOptions(GeneratingOptions):
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """The probability mass of each label that is spread evenly over the vocabulary."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """The probability that a source or target token is replaced by <unk> in training."""


class SequenceToSequence(GeneratingTask):
    fields = ("source", "target")
    # A derived task may read further fields; the two of this class are those that the model reads.
    predicted = output_field = "target"
    input_field = "source"
    start = BOS
    model_kind = "encoder-decoder"
    higher_is_better = True
    options: SequenceOptions
    _generated: tuple[str, list[str]]  # the split of the last evaluation, and the outputs

    def vocabulary(self) -> Vocabulary:
        source, target = (len(self.store.tokenizer(field)) for field in SequenceToSequence.fields)
        joint = self.store.manifest.tokenizers["source"] == self.store.manifest.tokenizers["target"]
        return Vocabulary(source if joint else (source, target), joint)

    def sizes(self, examples: Examples) -> Integers:
        return example_sizes(examples, SequenceToSequence.fields, added=1)

    def source_of(self, batch: Batch, seed: int | None = None) -> PackedField:
        """The encoder's input. A seed is given in training, where noise is added."""
        return self.drop_words(append(batch["source"], EOS), batch, seed, "source")

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        source = self.source_of(batch, seed)
        target = self.drop_words(prepend(batch["target"], BOS), batch, seed, "target")
        labels = append(batch["target"], EOS)
        return Inputs(
            {"source": tensor_of(source), "target": tensor_of(target)},
            {"source_lengths": source.lengths, "target_lengths": target.lengths},
            labels=tensor_of(labels),
            count=len(labels.ids),
        )

    def drop_words(self, field: PackedField, batch: Batch, seed: int | None, name: str) -> PackedField:
        """Word dropout on the field `name`, in training."""
        chance = self.options.word_dropout
        if seed is None or not chance:
            return field
        spared = tuple(range(len(self.store.tokenizer(name).specials)))
        return drop_words(
            field,
            batch.examples,
            probability=chance,
            replacement=UNK,
            seed=seed,
            epoch=batch.epoch,
            spared=spared,
            purpose=name,
        )

    def source(self, tokens: list[int], to: str | None) -> list[int]:
        return [*super().source(tokens, to), EOS]

    def generate(self, model: EncoderDecoder, split: str, max_tokens: int) -> tuple[list[str], list[str]]:
        """The model's output for every source that fits it, and the references, in the order of the split."""
        tokenizer, count = self.store.tokenizer("target"), len(self.examples(split))
        sources: list[ModelInput] = [[]] * count
        references = [""] * count
        for batch, _ in self.every_batch(model, split, max_tokens):
            correct = tokenizer.decode_batch(batch["target"].sequences())
            rows = zip(batch.examples, self.source_of(batch).sequences(), correct, strict=True)
            for example, source, reference in rows:
                sources[example], references[example] = source, reference
        kept = self.fitting(model, split)
        sources, references = [sources[at] for at in kept], [references[at] for at in kept]
        done = 0

        def advance(number: int) -> None:
            nonlocal done
            done += number
            self.progress(f"{split}: generation", done, len(sources))

        found = generate(model, sources, self.options.generation, bos=BOS, eos=EOS, progress=advance)
        hypotheses = tokenizer.decode_batch(best.tokens for best, *_ in found)
        self._generated = split, hypotheses
        return hypotheses, references

    def evaluated_examples(self, model: nn.Module, split: str) -> list[dict[str, Any]]:
        """With the outputs of the last evaluation."""
        examples = super().evaluated_examples(model, split)
        of, hypotheses = self._generated
        assert of == split
        for each, hypothesis in zip(examples, hypotheses, strict=True):
            each |= {"output": hypothesis, **self.score_sentence(hypothesis, each["reference"])}
        return examples

    def texts(self, batch: Batch) -> dict[str, str]:
        return {
            "source": self.show_source(batch),
            "reference": self.store.tokenizer("target").decode(batch["target"].ids),
        }

    def score_sentence(self, hypothesis: str, reference: str) -> dict[str, float]:
        """The metrics of one output."""
        return self.score([hypothesis], [reference])

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        assert isinstance(model, EncoderDecoder)
        hypotheses, references = self.generate(model, split, max_tokens)
        return loss_metrics(self.total_losses(model, split, max_tokens)) | self.score(hypotheses, references)

    def choose_samples(self, split: str, count: int) -> Iterator[tuple[ModelInput, str, TokenIds]]:
        """Examples evenly spaced from the shortest to the longest."""
        batches = self.batches(split, OrderOptions(max_tokens=1, shuffle=False, oversize="alone"))
        last = len(batches.plan.epoch(0)) - 1
        for index in np.linspace(0, last, count).astype(int).tolist():
            batch = batches.batch(0, index)
            yield self.source_of(batch).ids, self.show_source(batch), batch["target"].ids.tolist()

    def show_source(self, batch: Batch) -> str:
        """The source of a batch of one example, as readable text."""
        return self.store.tokenizer("source").decode(batch["source"].ids)

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        """The metrics that compare generated text with references."""
        raise NotImplementedError


def loss_metrics(losses: Losses) -> dict[str, float]:
    """The loss as trained, the negative log-likelihood in nats, and the perplexity, per token."""
    nll = losses.nll.item()
    return {
        "loss": losses.smoothed.item() / max(1, losses.count),
        "nll": nll / max(1, losses.count),
        "perplexity": perplexity(nll, losses.count),
    }
