"""Small models of other libraries, with random weights, and what they are called with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

DIM, IDS = 16, torch.randint(3, 50, (2, 8), generator=torch.Generator().manual_seed(1))
HUGGING_FACE = ["bert", "gpt2", "llama", "marian", "whisper", "vit"]
SIZES: dict[str, Any] = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
PAIRED: dict[str, Any] = {
    f"{stack}_{name}": size
    for stack in ("encoder", "decoder")
    for name, size in (("layers", 3), ("attention_heads", 2), ("ffn_dim", 32))
}


def hugging_face(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    library = pytest.importorskip("transformers")
    library.utils.logging.set_verbosity_error()
    words = {"input_ids": IDS, "labels": IDS}
    sides = {"d_model": 16, "vocab_size": 50, "pad_token_id": 0, "decoder_start_token_id": 1, **PAIRED}
    if name == "bert":
        config = library.BertConfig(**SIZES, intermediate_size=32)
        return library.BertForMaskedLM(config), words
    if name == "gpt2":
        return library.GPT2LMHeadModel(library.GPT2Config(vocab_size=50, n_embd=16, n_layer=3, n_head=2)), words
    if name == "llama":
        return library.LlamaForCausalLM(library.LlamaConfig(**SIZES, intermediate_size=32)), words
    if name == "marian":
        return library.MarianMTModel(library.MarianConfig(**sides)), words
    if name == "whisper":
        sound = {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 10}
        config = library.WhisperConfig(**sides, **sound, suppress_tokens=[], begin_suppress_tokens=[])
        given = {"input_features": torch.randn(2, 8, 20), "labels": IDS}
        return library.WhisperForConditionalGeneration(config), given
    assert name == "vit"
    sizes = {key: value for key, value in SIZES.items() if key != "vocab_size"}
    config = library.ViTConfig(**sizes, intermediate_size=32, image_size=8, patch_size=4, num_labels=2)
    given = {"pixel_values": torch.randn(2, 3, 8, 8), "labels": torch.tensor([0, 1])}
    return library.ViTForImageClassification(config), given
