"""The config of a Lamina model in transformers: all of its options, and the sizes that the library asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

from lamina.model.options import ModelOptions, pair

MODEL_TYPE = "lamina"


class LaminaConfig(PreTrainedConfig):
    """`lamina` holds the options of the model, as a run folder's config does."""

    model_type = MODEL_TYPE

    def __init__(self, lamina: Mapping[str, Any] | None = None, **others: Any) -> None:
        self.lamina = dict(lamina or {})
        if lamina:
            options = self.model_options()
            encoder_depth, decoder_depth = pair(options.num_layers)
            paired = options.kind == "encoder-decoder"
            others |= {
                "is_encoder_decoder": paired,
                "vocab_size": pair(options.vocab_size)[1],
                "hidden_size": options.model_dim,
                "num_attention_heads": options.num_heads,
                "num_key_value_heads": options.num_kv_heads or options.num_heads,
                "num_hidden_layers": decoder_depth,
                "encoder_layers": encoder_depth,
                "decoder_layers": decoder_depth,
                "pad_token_id": options.padding_index,
            }
        super().__init__(**others)

    def model_options(self) -> ModelOptions:
        """The options that the model is built from; each is checked."""
        return ModelOptions.read(self.lamina, where="config.json: lamina")

    @classmethod
    def of(cls, options: ModelOptions, **others: Any) -> LaminaConfig:
        """The config of a model with these options."""
        # The preset's values are among the others, so its name would only be checked again.
        return cls(lamina=options.model_dump(mode="json", exclude={"preset"}), **others)
