"""Model classes of transformers, built from small random configs: those that a diagnosis is tried on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lamina.interop.random_input import random_batches

WORDS, WIDTH, LAYERS, HEADS = 60, 16, 3, 2
SIZES: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 32,
    "max_position_embeddings": 80,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 8}
"""Decoders with grouped key-value heads."""
EXPERTS = GROUPED | {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
PAIRED: dict[str, Any] = {
    "vocab_size": WORDS,
    "d_model": WIDTH,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": 2,
} | {
    f"{stack}_{name}": size
    for stack in ("encoder", "decoder")
    for name, size in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 32))
}
T5 = {"vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": LAYERS, "num_heads": HEADS}
T5 |= {"num_decoder_layers": LAYERS, "decoder_start_token_id": 0, "pad_token_id": 0}
IMAGES = {name: size for name, size in SIZES.items() if name not in ("vocab_size", "max_position_embeddings")}
IMAGES |= {"image_size": 16, "patch_size": 4, "num_labels": 3}
STAGES = {"image_size": 32, "patch_size": 2, "num_labels": 3}
SOUND = SIZES | {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
SOUND |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8, "num_labels": 3}
GPT2 = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}

CLASSES: dict[str, dict[str, Any]] = {
    # Decoders
    "GPT2LMHeadModel": GPT2,
    "GPTNeoForCausalLM": SIZES
    | {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
    | {"num_hidden_layers": 2},
    "GPTNeoXForCausalLM": SIZES,
    "GPTJForCausalLM": GPT2 | {"rotary_dim": 4},
    "CodeGenForCausalLM": GPT2 | {"n_head": 4, "rotary_dim": 4},
    "GPTBigCodeForCausalLM": GPT2,
    "CTRLLMHeadModel": GPT2 | {"dff": 32},
    "OPTForCausalLM": SIZES | {"ffn_dim": 32, "word_embed_proj_dim": WIDTH},
    "XGLMForCausalLM": PAIRED | {"attention_heads": HEADS, "ffn_dim": 32, "num_layers": LAYERS},
    "BioGptForCausalLM": SIZES,
    "BloomForCausalLM": SIZES | {"n_layer": LAYERS, "n_head": HEADS},
    "MptForCausalLM": {"vocab_size": WORDS, "d_model": WIDTH, "n_heads": HEADS, "n_layers": LAYERS, "max_seq_len": 64},
    "FalconForCausalLM": SIZES,
    "LlamaForCausalLM": GROUPED,
    "MistralForCausalLM": GROUPED,
    "MixtralForCausalLM": EXPERTS | {"num_local_experts": 4},
    "Qwen2ForCausalLM": GROUPED,
    "Qwen3ForCausalLM": GROUPED,
    "Qwen2MoeForCausalLM": EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 16},
    "Qwen3MoeForCausalLM": EXPERTS | {"num_experts": 4},
    "GemmaForCausalLM": GROUPED,
    "Gemma2ForCausalLM": GROUPED | {"num_hidden_layers": 4},
    "Gemma3ForCausalLM": GROUPED | {"num_hidden_layers": 4},
    "PhiForCausalLM": SIZES,
    "Phi3ForCausalLM": GROUPED,
    "CohereForCausalLM": GROUPED,
    "OlmoForCausalLM": GROUPED,
    "Olmo2ForCausalLM": GROUPED,
    "OlmoeForCausalLM": EXPERTS | {"num_experts": 4},
    "StableLmForCausalLM": GROUPED,
    "Starcoder2ForCausalLM": GROUPED,
    "PersimmonForCausalLM": SIZES,
    "GraniteForCausalLM": GROUPED,
    "GraniteMoeForCausalLM": EXPERTS | {"num_local_experts": 4},
    "NemotronForCausalLM": GROUPED,
    "GlmForCausalLM": GROUPED,
    "SmolLM3ForCausalLM": GROUPED | {"num_hidden_layers": 4},
    "ArceeForCausalLM": GROUPED,
    "GptOssForCausalLM": EXPERTS | {"num_local_experts": 4, "num_hidden_layers": 4},
    "JambaForCausalLM": EXPERTS
    | {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}
    | {"num_hidden_layers": 4, "mamba_d_state": 4, "mamba_dt_rank": 4},
    "MambaForCausalLM": SIZES | {"state_size": 4, "time_step_rank": 4},
    "Mamba2ForCausalLM": SIZES | {"state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    # Encoders
    "BertForMaskedLM": SIZES,
    "RobertaForMaskedLM": SIZES,
    "XLMRobertaForMaskedLM": SIZES,
    "CamembertForMaskedLM": SIZES,
    "DistilBertForMaskedLM": {
        "vocab_size": WORDS,
        "dim": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "hidden_dim": 32,
    },
    "AlbertForMaskedLM": SIZES | {"embedding_size": 8},
    "ElectraForMaskedLM": SIZES | {"embedding_size": 8},
    "DebertaForMaskedLM": SIZES,
    "DebertaV2ForMaskedLM": SIZES,
    "MPNetForMaskedLM": SIZES,
    "ModernBertForMaskedLM": SIZES | {"num_hidden_layers": 4, "cls_token_id": 1, "sep_token_id": 2},
    "MegatronBertForMaskedLM": SIZES,
    "RemBertForMaskedLM": SIZES | {"input_embedding_size": 8, "output_embedding_size": 8},
    "RoFormerForMaskedLM": SIZES,
    "ConvBertForMaskedLM": SIZES | {"embedding_size": WIDTH},
    "FNetForMaskedLM": SIZES,
    "MobileBertForMaskedLM": SIZES | {"embedding_size": WIDTH, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    "IBertForMaskedLM": SIZES,
    "EsmForMaskedLM": SIZES | {"mask_token_id": 3},
    "LongformerForMaskedLM": SIZES | {"attention_window": 8, "max_position_embeddings": 128},
    "BigBirdForMaskedLM": SIZES | {"attention_type": "original_full"},
    "NystromformerForMaskedLM": SIZES | {"num_landmarks": 8, "segment_means_seq_len": 64},
    "XLMWithLMHeadModel": {"vocab_size": WORDS, "emb_dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS},
    # Encoder–decoders
    "T5ForConditionalGeneration": T5,
    "MT5ForConditionalGeneration": T5,
    "UMT5ForConditionalGeneration": T5,
    "LongT5ForConditionalGeneration": T5 | {"local_radius": 4},
    "SwitchTransformersForConditionalGeneration": T5 | {"num_experts": 4, "num_layers": 4, "num_decoder_layers": 4},
    "BartForConditionalGeneration": PAIRED,
    "MBartForConditionalGeneration": PAIRED,
    "PLBartForConditionalGeneration": PAIRED,
    "MarianMTModel": PAIRED,
    "PegasusForConditionalGeneration": PAIRED,
    "BlenderbotForConditionalGeneration": PAIRED,
    "M2M100ForConditionalGeneration": PAIRED,
    "NllbMoeForConditionalGeneration": PAIRED | {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2},
    "LEDForConditionalGeneration": PAIRED
    | {"attention_window": 8, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "ProphetNetForConditionalGeneration": {name: size for name, size in SIZES.items() if name != "num_hidden_layers"}
    | {"num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS, "decoder_start_token_id": 1}
    | {
        "num_encoder_attention_heads": 2,
        "num_decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    },
    "WhisperForConditionalGeneration": PAIRED
    | {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 16}
    | {"suppress_tokens": [], "begin_suppress_tokens": []},
    # Images and sound
    "ViTForImageClassification": IMAGES,
    "DeiTForImageClassification": IMAGES,
    "BeitForImageClassification": IMAGES,
    "Dinov2ForImageClassification": IMAGES,
    "SwinForImageClassification": STAGES | {"embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4},
    "Swinv2ForImageClassification": STAGES | {"embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4},
    "Wav2Vec2ForSequenceClassification": SOUND,
    "HubertForSequenceClassification": SOUND,
    "WavLMForSequenceClassification": SOUND,
    "UniSpeechForSequenceClassification": SOUND,
}
"""The arguments of the config, by the name of the class."""


def build(library: Any, name: str) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """A model with random weights, and two random batches."""
    torch.manual_seed(0)
    model_class = getattr(library, name)
    model = model_class(model_class.config_class(**CLASSES[name]))
    return model, random_batches(model, 2, 32)
