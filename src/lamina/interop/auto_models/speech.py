"""A speech recogniser of Lamina in transformers: frames of features in place of token ids."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from lamina.interop.auto_models.models import LaminaForSeq2SeqLM
from lamina.interop.padded import pack_real, real_slots, unpack_real
from lamina.model.models import EncoderDecoder


class LaminaForSpeechSeq2Seq(LaminaForSeq2SeqLM):
    """An encoder–decoder that reads normalised filterbank features, (utterances, frames, bins).

    The attention mask is that of the frames, of which the encoder's output has a quarter.
    """

    main_input_name = "input_features"

    def forward(  # type: ignore[override]
        self, input_features: Tensor | None = None, attention_mask: Tensor | None = None, **others: Any
    ) -> Any:
        return super().forward(input_features, attention_mask, **others)

    def _memory_mask(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        return real_slots(hidden, None) if attention_mask is None else shortened(attention_mask.bool())

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return SpeechEncoder(self.transformer)


class SpeechEncoder(nn.Module):
    """The encoder as `generate` calls it; it shares the weights of its model."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        mask = real_slots(input_features, attention_mask)
        memory = self.model.encode(*pack_real(input_features, mask))[0]
        return BaseModelOutput(last_hidden_state=unpack_real(memory, shortened(mask)))


def shortened(mask: Tensor) -> Tensor:
    """The mask of the encoder's output: two convolutions halve the number of frames, rounding up."""
    counts, longest = mask.sum(1), mask.shape[1]
    for _ in range(2):
        counts, longest = (counts + 1) // 2, (longest + 1) // 2
    return torch.arange(longest, device=mask.device) < counts[:, None]
