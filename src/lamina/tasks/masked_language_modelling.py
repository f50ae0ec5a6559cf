"""Masked language modelling (BERT's pre-training), evaluated by the negative log-likelihood of the chosen tokens.

<cls> w₁ … wₙ <sep>                 blocks of running text, or
<cls> first … <sep> second … <sep>  sentences or pairs of them, where the store has those instead: a model learns on
                                    pairs to find in one sentence what is masked in the other

15 % of the tokens are predicted: 80 % of them masked, 10 % random, 10 % unchanged.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from lamina.data.batches import Batch
from lamina.data.examples import Blocks, Examples
from lamina.data.noise import Masking
from lamina.data.packed import Integers
from lamina.data.store import Store
from lamina.data.tokenizer import EOS, MASK
from lamina.tasks.base import MAX_TOKENS, Inputs, Task, TaskOptions, tensor_of
from lamina.tasks.sentences import join_sentences, sentence_fields, sentence_sizes
from lamina.tasks.sequence_to_sequence import loss_metrics

VALIDATION_SEED = 0  # every evaluation masks the same tokens


class MaskedLanguageModelling(Task):
    class Options(TaskOptions):
        block_length: int = Field(128, ge=1)
        """The number of tokens in a block, without <cls> and <sep>."""
        masked: float = Field(0.15, gt=0, lt=1)
        """The share of tokens that are predicted."""

    name = "masked-language-modelling"
    embedded = "embedded-text"
    fields = ("text",)
    predicted = "text"
    model_kind = "encoder"
    head = "masked-words"
    metric = "nll"
    higher_is_better = False
    options: Options

    def __init__(self, store: Store, options: Options) -> None:
        super().__init__(store, options)
        self._specials = tuple(range(len(store.tokenizer().specials)))

    def required_fields(self) -> tuple[str, ...]:
        return sentence_fields(self.store) or self.fields

    @property
    def predicted_fields(self) -> tuple[str, ...]:
        return self.required_fields()

    def examples(self, split: str, *, training: bool = False) -> Examples:
        if sentence_fields(self.store):
            return self.store[split]
        return Blocks(self.store[split], length=self.options.block_length, boundary=EOS)

    def sizes(self, examples: Examples) -> Integers:
        return sentence_sizes(examples, sentence_fields(self.store) or ("target",))

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        masking = Masking(
            mask=MASK,
            vocabulary_size=len(self.store.tokenizer()),
            special=self._specials,
            seed=VALIDATION_SEED if seed is None else seed,
            probability=self.options.masked,
        )
        whole, segments = join_sentences([batch[name] for name in sentence_fields(self.store) or ("target",)])
        hidden = masking(whole, batch.examples, epoch=batch.epoch)
        return Inputs(
            {
                "tokens": tensor_of(hidden.field),
                "segments": tensor_of(segments),
                "only": torch.from_numpy(hidden.chosen),
            },
            {"lengths": whole.lengths},
            labels=torch.from_numpy(hidden.labels),
            count=len(hidden.labels),
        )

    def texts(self, batch: Batch) -> dict[str, str]:
        tokenizer = self.store.tokenizer()
        if names := sentence_fields(self.store):
            return {name: tokenizer.decode(batch[name].ids) for name in names}
        return {"text": tokenizer.decode(batch["target"].ids)}

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        return loss_metrics(self.total_losses(model, split, max_tokens))
