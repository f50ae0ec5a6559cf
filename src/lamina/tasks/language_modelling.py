"""Language modelling: predict the next token in blocks of running text, evaluated by perplexity.

Training cuts the concatenated documents into blocks. Evaluation can prepend context to each block, so that every token
is scored once and nearly all of them with a history.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from lamina.data.batches import Batch
from lamina.data.examples import Blocks, Examples
from lamina.data.noise import drop_words
from lamina.data.packed import Integers
from lamina.data.tokenizer import EOS, UNK
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import perplexity
from lamina.tasks.base import MAX_TOKENS, Inputs, tensor_of
from lamina.tasks.generating import GeneratingOptions, GeneratingTask, TokenIds
from lamina.tasks.sequence_to_sequence import loss_metrics

SHOWN = 64  # tokens of a document in a sample: the prompt and its continuation


class LanguageModelling(GeneratingTask):
    class Options(GeneratingOptions):
        generation: GenerateOptions = GenerateOptions(method="sample", max_length=100)
        """Options of generation, used by `lamina generate` to continue a prompt."""
        block_length: int = Field(512, ge=1)
        """The number of tokens in a block."""
        context: int = Field(0, ge=0)
        """In evaluation, the number of tokens at the start of each block that repeat the previous block and are not
        scored again."""
        across_documents: bool = True
        """Whether a block may contain the end of one document and the beginning of the next."""
        word_dropout: float = Field(0.0, ge=0, lt=1)
        """The probability that an input token is replaced by <unk> in training."""

        @model_validator(mode="after")
        def _context_fits(self) -> LanguageModelling.Options:
            if self.context >= self.block_length:
                raise ValueError(f"context {self.context} must be shorter than block_length {self.block_length}")
            return self

    name = "language-modelling"
    embedded = "embedded-text"
    fields = ("text",)
    predicted = input_field = output_field = "text"
    start = EOS  # the token that ends one document begins the next
    model_kind = "decoder"
    metric = "perplexity"
    higher_is_better = False
    options: Options

    def examples(self, split: str, *, training: bool = False) -> Blocks:
        return Blocks(
            self.store[split],
            length=self.options.block_length,
            boundary=EOS,
            context=0 if training else self.options.context,
            across_documents=self.options.across_documents,
        )

    def sizes(self, examples: Examples) -> Integers:
        return examples.lengths("target")

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        words, scored = batch["input"], batch["scored"].ids
        if seed is not None and self.options.word_dropout:
            chance, epoch = self.options.word_dropout, batch.epoch
            words = drop_words(
                words, batch.examples, probability=chance, replacement=UNK, seed=seed, epoch=epoch, spared=(EOS,)
            )
        every = bool(scored.all())
        return Inputs(
            {"tokens": tensor_of(words)},
            {"lengths": words.lengths},
            labels=tensor_of(batch["target"]),
            weights=None if every else torch.from_numpy(scored.astype(np.float32)),
            count=int(scored.sum()),
        )

    def texts(self, batch: Batch) -> dict[str, str]:
        return {"text": self.store.tokenizer().decode(batch["target"].ids)}

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        losses = self.total_losses(model, split, max_tokens)
        per_word = perplexity(losses.nll.item(), self.count_words(split))
        return loss_metrics(losses) | {"perplexity per word": per_word}

    def choose_samples(self, split: str, count: int) -> Iterator[tuple[TokenIds, str, TokenIds]]:
        """The first half of a document's beginning as the prompt, and the second as its reference."""
        documents = self.store[split]
        long_enough = np.flatnonzero(documents.lengths("text") > 1)
        places = np.linspace(0, len(long_enough) - 1, count if len(long_enough) else 0).astype(int)
        for document in long_enough[places].tolist():
            text = documents.tokens("text", document)[: min(SHOWN, self.options.block_length)].tolist()
            beginning, rest = text[: len(text) // 2], text[len(text) // 2 :]
            yield beginning, self.store.tokenizer("text").decode(beginning), rest

    def count_words(self, split: str) -> int:
        """The number of words between white space, plus one end per document, by which perplexity per word is
        averaged."""
        documents = self.store[split]
        return documents.record.fields["text"].words + len(documents)
