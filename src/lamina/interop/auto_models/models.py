"""Lamina's models as classes of transformers: `forward` and `generate` with the library's arguments.

Every class holds a Lamina model as `transformer`. Attention masks may have padding on either side.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
)

from lamina.errors import UserError
from lamina.interop.auto_models.config import LaminaConfig
from lamina.interop.padded import LibraryCache, PaddedSequences, pack_real, real_slots, unpack_real
from lamina.model.models import EncoderDecoder, SingleStack
from lamina.model.sequences import Sequences
from lamina.model.transformer import Transformer

IGNORED = -100
"""The label of a token that counts for no loss, in all of transformers."""


class LaminaModel(PreTrainedModel):
    """The base class: building, loading, gradient checkpointing."""

    config_class = LaminaConfig
    base_model_prefix = "lamina"  # no attribute of that name: the class is its own base model
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    def __init__(self, config: LaminaConfig, transformer: Transformer | None = None) -> None:
        """`transformer` is a model with the options of the config; by default a new one, initialised by its scheme."""
        super().__init__(config)
        self.transformer = Transformer.build(config.model_options()) if transformer is None else transformer
        self.post_init()

    @classmethod
    def from_pretrained(cls, *arguments: Any, output_loading_info: bool = False, **keywords: Any) -> Any:
        model, found = super().from_pretrained(*arguments, output_loading_info=True, **keywords)
        missing = sorted(found["missing_keys"])
        if missing:
            raise UserError(f"{arguments[0]}: {len(missing)} weights are missing, such as {missing[0]}")
        # The library sets tensors one by one; a scheme reads some of them when a state is loaded, such as Admin's flag.
        model.transformer.load_state_dict(model.transformer.state_dict())
        return (model, found) if output_loading_info else model

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: a Lamina model initialises itself when it is built, by the rule of its scheme."""

    def get_input_embeddings(self) -> nn.Module:
        tables = self.transformer.tables
        return cast(nn.Module, tables["source"] if "source" in tables else tables[next(iter(tables))])

    def gradient_checkpointing_enable(self, *_: Any, **__: Any) -> None:
        self._checkpoint_layers(True)

    def gradient_checkpointing_disable(self) -> None:
        self._checkpoint_layers(False)

    def _checkpoint_layers(self, chosen: bool) -> None:
        for stack in self.transformer.stacks():
            stack.checkpoint_layers = chosen

    @property
    def is_gradient_checkpointing(self) -> bool:
        return any(stack.checkpoint_layers for stack in self.transformer.stacks())


class LaminaForCausalLM(LaminaModel, GenerationMixin):
    """A language model; its first token is <eos>, which ends the document before."""

    transformer: SingleStack

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        model = self.transformer
        if past_key_values is None and not use_cache:
            mask = real_slots(input_ids, attention_mask)
            ids, lengths = pack_real(input_ids, mask)
            scores = unpack_real(model(ids, lengths=lengths), mask)
        else:
            past_key_values = DynamicCache() if past_key_values is None else past_key_values
            scores = model.head(self._decode(input_ids, attention_mask, past_key_values), model.output_table)
            scores = scores.view(*input_ids.shape, -1)
        loss = None if labels is None else word_loss(scores[:, :-1], labels[:, 1:])
        return _in_form(CausalLMOutputWithPast(loss=loss, logits=scores, past_key_values=past_key_values), return_dict)

    def _decode(self, ids: Tensor, mask: Tensor | None, past: Any) -> Tensor:
        sequences = _step(ids, mask, past.get_seq_length())
        return self.transformer.decode(ids.flatten(), sequences, LibraryCache(past, sequences))


class LaminaForSeq2SeqLM(LaminaModel, GenerationMixin):
    """An encoder–decoder for text."""

    transformer: EncoderDecoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(input_ids, attention_mask)
        if decoder_input_ids is None:
            if labels is None:
                raise UserError("an encoder-decoder needs decoder_input_ids, or labels to make them from")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        hidden = encoder_outputs[0]
        memory_mask = self._memory_mask(hidden, attention_mask)
        if past_key_values is None and use_cache:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        scores = self._scores(decoder_input_ids, decoder_attention_mask, hidden, memory_mask, past_key_values)
        loss = None if labels is None else word_loss(scores, labels)
        found = Seq2SeqLMOutput(
            loss=loss, logits=scores, past_key_values=past_key_values, encoder_last_hidden_state=hidden
        )
        return _in_form(found, return_dict)

    def _scores(self, ids: Tensor, mask: Tensor | None, hidden: Tensor, memory_mask: Tensor, past: Any) -> Tensor:
        model = self.transformer
        memory, lengths = pack_real(hidden, memory_mask)
        memory_sequences = Sequences(lengths, ids.device)
        if past is None:
            real = real_slots(ids, mask)
            packed, own_lengths = pack_real(ids, real)
            output = model.decode(packed, Sequences(own_lengths, ids.device), memory, memory_sequences)
            return unpack_real(model.head(output, model.output_table), real)
        step = _step(ids, mask, past.self_attention_cache.get_seq_length())
        # The memory is stored without the padding that the batch has beyond its longest source.
        cache = LibraryCache(past, step, memory_sequences.key_mask)
        output = model.decode(ids.flatten(), step, memory, memory_sequences, cache)
        return model.head(output, model.output_table).view(*ids.shape, -1)

    def _memory_mask(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        return real_slots(hidden, attention_mask)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels, one place later, after the decoder's first token."""
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        ids = torch.cat([start, labels[:, :-1]], dim=1)
        return ids.masked_fill(ids == IGNORED, self.config.pad_token_id)

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return TextEncoder(self.transformer)


class TextEncoder(nn.Module):
    """The encoder as `generate` calls it; it shares the weights of its model."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        mask = real_slots(input_ids, attention_mask)
        memory = self.model.encode(*pack_real(input_ids, mask))[0]
        return BaseModelOutput(last_hidden_state=unpack_real(memory, mask))


class LaminaForMaskedLM(LaminaModel):
    """An encoder that predicts masked words, as BERT does."""

    transformer: SingleStack

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        scores = unpack_real(*_encoded(self.transformer, input_ids, attention_mask, token_type_ids))
        loss = None if labels is None else word_loss(scores, labels)
        return _in_form(MaskedLMOutput(loss=loss, logits=scores), return_dict)


class LaminaForSequenceClassification(LaminaModel):
    """An encoder that scores classes, as a fine-tuned BERT does."""

    transformer: SingleStack

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        scores, _ = _encoded(self.transformer, input_ids, attention_mask, token_type_ids)
        loss = None if labels is None else F.cross_entropy(scores, labels)
        return _in_form(SequenceClassifierOutput(loss=loss, logits=scores), return_dict)


def _encoded(model: SingleStack, ids: Tensor, mask: Tensor | None, segments: Tensor | None) -> tuple[Tensor, Tensor]:
    """The packed scores of an encoder, and which slots of the batch are real."""
    real = real_slots(ids, mask)
    packed, lengths = pack_real(ids, real)
    return model(packed, lengths=lengths, segments=None if segments is None else segments[real]), real


def word_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean negative log-likelihood of the labels that are not ignored."""
    return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)


def _step(ids: Tensor, mask: Tensor | None, past: int) -> PaddedSequences:
    """The slots of a decoding step, given a mask of all tokens so far or of those of the step."""
    rows, length = ids.shape
    real = torch.ones(rows, past + length, dtype=torch.bool, device=ids.device)
    if mask is not None:
        real[:, past + length - mask.shape[1] :] = mask.bool()
    return PaddedSequences(real, length)


def _in_form(output: Any, return_dict: bool | None) -> Any:
    return output.to_tuple() if return_dict is False else output
