"""Llama: pre-LN with RMS norms, rotary positions, SwiGLU, grouped key and value heads, no biases.

Rotary positions turn channel i of a head together with channel i + d/2; Lamina turns neighbours, so the rows of the
query and key matrices are reordered. A text begins with `<s>` and ends with `</s>`, for which Lamina's language models
have one token, <eos>: it is read as the first and predicted as the second, from a table of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from lamina.data.tokenizer import BOS, EOS
from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig, ForeignModel
from lamina.interop.imports.token_rows import TokenRows, read_token_rows
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions, pair
from lamina.residual.pre_ln import PreLN

UNUSED = r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq|lm_head\.weight"
"""Stored frequencies, and the output layer where it is the embedding table."""
DEFAULT_BASE = 10_000.0


def read_llama(folder: Path, config: ForeignConfig) -> ForeignModel:
    """A LlamaForCausalLM."""
    dim, heads = config.number("hidden_size", 4096), config.number("num_attention_heads", 32)
    config.refuse("hidden_act", "silu", "Lamina's gated feed-forward sub-layer is SwiGLU")
    config.refuse("head_dim", dim // heads, "in Lamina the heads together are as wide as the model")
    config.refuse("attention_bias", False, "Lamina's sub-layers have biases everywhere or nowhere")
    config.refuse("mlp_bias", False, "Lamina's sub-layers have biases everywhere or nowhere")
    size, length = config.number("vocab_size", 32_000), config.number("max_position_embeddings", 2048)
    begin, end = config.token("bos_token_id", 1), config.token("eos_token_id", 2)
    rows, notes = read_token_rows(folder, size, {EOS: begin, BOS: begin}, {EOS: end})
    is_tied = bool(config.get("tie_word_embeddings", False))
    shares = is_tied and rows.can_share
    if is_tied and not shares:
        notes.append("the output layer was the embedding table; here it is a table of its own, because <s> is no </s>")
    model: dict[str, Any] = {
        "residual": PreLN.name,
        "num_layers": config.number("num_hidden_layers", 32),
        "model_dim": dim,
        "feed_forward_dim": config.number("intermediate_size", 11_008),
        "num_heads": heads,
        "num_kv_heads": config.number("num_key_value_heads", heads),
        "activation": "swiglu",
        "bias": False,
        "norm": {"kind": "rms", "eps": config.get("rms_norm_eps", 1e-6)},
        "positions": "rotary",
        "rotary_base": _rotary_base(config),
        "max_length": length,
        "scale_embeddings": False,
        "shared_embeddings": "all" if shares else "none",
        "output_bias": True,
        "dropout": 0.0,
        "attention_dropout": config.get("attention_dropout", 0.0),
        "init": "normal",
    }
    return ForeignModel(
        task="language-modelling",
        task_options={"block_length": min(512, length)},
        model=model,
        tokenizers={"text": rows.tokenizer},
        map_weights=lambda weights, options: _map(weights, options, rows, size, is_tied),
        unused=UNUSED if is_tied else UNUSED.partition("|")[0],
        notes=tuple(notes),
    )


def _rotary_base(config: ForeignConfig) -> float:
    """The base of the wavelengths; frequencies that are changed for longer texts are refused."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = given.get("rope_type", given.get("type", "default")) if isinstance(given, dict) else given
    if kind != "default":
        raise UserError(
            f"{config.where}: rotary positions of the type {kind!r} cannot be imported: Lamina has those of Su et al. "
            "2021 alone, with any base"
        )
    return float(given.get("rope_theta", config.get("rope_theta", DEFAULT_BASE)))


def _map(weights: WeightMapping, options: ModelOptions, rows: TokenRows, size: int, is_tied: bool) -> None:
    dim, inner = options.model_dim, options.feed_forward_dim
    head_dim = dim // options.num_heads
    kv_dim = head_dim * (options.num_kv_heads or options.num_heads)
    table = weights.take("model.embed_tokens.weight", size, dim)
    weights.own["tables.input.weight"] = rows.embedding(table)
    if options.shared_embeddings == "none":
        weights.own["tables.output.weight"] = rows.output(
            table if is_tied else weights.take("lm_head.weight", size, dim)
        )
    weights.own["head.bias"] = rows.bias()
    for layer in range(pair(options.num_layers)[0]):
        theirs, ours = f"model.layers.{layer}", f"stack.layers.{layer}"
        weights.norm(f"{ours}.sites.0.norm", f"{theirs}.input_layernorm", dim, bias=False)
        weights.norm(f"{ours}.sites.1.norm", f"{theirs}.post_attention_layernorm", dim, bias=False)
        linears = (
            ("sublayers.0.query", "self_attn.q_proj", dim, dim),
            ("sublayers.0.key", "self_attn.k_proj", kv_dim, dim),
            ("sublayers.0.value", "self_attn.v_proj", kv_dim, dim),
            ("sublayers.0.output", "self_attn.o_proj", dim, dim),
            ("sublayers.1.gate", "mlp.gate_proj", inner, dim),
            ("sublayers.1.inner", "mlp.up_proj", inner, dim),
            ("sublayers.1.outer", "mlp.down_proj", dim, inner),
        )
        for own, name, outputs, inputs in linears:
            weights.linear(f"{ours}.{own}", f"{theirs}.{name}", outputs, inputs, bias=False)
        for name in ("query", "key"):
            own = f"{ours}.sublayers.0.{name}.weight"
            weights.own[own] = interleave(weights.own[own], head_dim)
    weights.norm("stack.residual.final_norm", "model.norm", dim, bias=False)


def interleave(matrix: Tensor, head_dim: int) -> Tensor:
    """The rows of a matrix with the two halves of each head interleaved: 0, d/2, 1, d/2 + 1, …"""
    halves = matrix.view(-1, 2, head_dim // 2, matrix.shape[1])  # (heads, half, channel, inputs)
    return halves.transpose(1, 2).reshape(matrix.shape)
