"""Small models of transformers with random weights, and batches for them."""

from __future__ import annotations

from typing import Any

import torch

SIZES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
PAIR = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
}
T5 = {"vocab_size": 60, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
IMAGE = {name: value for name, value in SIZES.items() if name != "vocab_size"} | {"image_size": 16, "patch_size": 8}
START = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 2, "bos_token_id": 1}
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bert": ("BertForMaskedLM", "BertConfig", SIZES, "post-ln"),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", SIZES, "post-ln"),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40, "eos_token_id": 2},
        "pre-ln",
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZES | {"num_key_value_heads": 1}, "pre-ln"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", SIZES | {"num_key_value_heads": 1}, "pre-ln"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SIZES | {"num_key_value_heads": 1, "head_dim": 16}, "pre-ln"),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR | START, "post-ln"),
    "marian": ("MarianMTModel", "MarianConfig", PAIR | START, "post-ln"),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5 | {"decoder_start_token_id": 0}, "pre-ln"),
    "t5-gated": (
        "T5ForConditionalGeneration",
        "T5Config",
        T5 | {"decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu"},
        "pre-ln",
    ),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGE, "pre-ln"),
}
"""By name: the model's class, its config's class, sizes, and the scheme that it has."""


def library_model_of(name: str, **changes: Any) -> Any:
    """A model whose norms and biases are random too, in evaluation mode."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    model_class, config_class, sizes, _ = MODELS[name]
    torch.manual_seed(3)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**(sizes | changes)))
    with torch.no_grad():
        for parameter in filter(lambda each: each.requires_grad, model.parameters()):  # sinusoids stay as they are
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def batch_of(name: str) -> dict[str, torch.Tensor]:
    """A batch of two examples, the second one shorter."""
    torch.manual_seed(4)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 16, 16)}
    batch = {"input_ids": torch.randint(5, 60, (2, 7)), "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2])}
    if name in ("bart", "marian", "t5", "t5-gated"):
        batch["decoder_input_ids"] = torch.randint(5, 60, (2, 4))
    return batch
