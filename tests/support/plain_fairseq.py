"""fairseq's `transformer` as a plain function of its own tensors, written from its description."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

PADDING = 1
SIZES: dict[str, Any] = {
    "arch": "transformer_iwslt_de_en",
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_embed_dim": 16,
    "decoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "decoder_ffn_embed_dim": 24,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "max_source_positions": 30,
    "max_target_positions": 30,
    "source_lang": "de",
    "target_lang": "en",
}


def random_tensors(arguments: Mapping[str, Any], source_size: int, target_size: int) -> dict[str, Tensor]:
    """Random tensors under fairseq's names."""
    torch.manual_seed(5)
    dim, inner = arguments["encoder_embed_dim"], arguments["encoder_ffn_embed_dim"]
    found: dict[str, Tensor] = {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])}

    def add(name: str, *shape: int) -> None:
        found[name] = torch.randn(*shape) * 0.3

    def add_linear(name: str, outputs: int, inputs: int) -> None:
        add(f"{name}.weight", outputs, inputs)
        add(f"{name}.bias", outputs)

    def add_norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = 1 + torch.randn(dim) * 0.2, torch.randn(dim) * 0.2

    for side, size in (("encoder", source_size), ("decoder", target_size)):
        add(f"{side}.embed_tokens.weight", size, dim)
        if arguments.get(f"{side}_learned_pos"):
            add(f"{side}.embed_positions.weight", 30 + PADDING + 1, dim)
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        if arguments.get("layernorm_embedding"):
            add_norm(f"{side}.layernorm_embedding")
        attentions = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
        for layer in range(arguments[f"{side}_layers"]):
            at = f"{side}.layers.{layer}"
            for attention in attentions:
                for each in ("q", "k", "v", "out"):
                    add_linear(f"{at}.{attention}.{each}_proj", dim, dim)
                add_norm(f"{at}.{attention}_layer_norm")
            add_linear(f"{at}.fc1", inner, dim)
            add_linear(f"{at}.fc2", dim, inner)
            add_norm(f"{at}.final_layer_norm")
        if arguments.get(f"{side}_normalize_before"):
            add_norm(f"{side}.layer_norm")
    if arguments.get("share_all_embeddings"):
        found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"].clone()
    add("decoder.output_projection.weight", target_size, dim)
    if arguments.get("share_all_embeddings") or arguments.get("share_decoder_input_output_embed"):
        found["decoder.output_projection.weight"] = found["decoder.embed_tokens.weight"].clone()
    return found


def plain_fairseq(t: Mapping[str, Tensor], arguments: Mapping[str, Any], source: Tensor, target: Tensor) -> Tensor:
    """The logits (sentences, length, words) for sources and decoder inputs without padding."""
    heads = arguments["encoder_attention_heads"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], t[f"{name}.weight"], t[f"{name}.bias"])

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    def attend(x: Tensor, memory: Tensor, name: str, causal: bool) -> Tensor:
        q, k, v = (
            linear(given, f"{name}.{each}_proj").unflatten(-1, (heads, -1)).transpose(1, 2)
            for each, given in (("q", x), ("k", memory), ("v", memory))
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
        return linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), f"{name}.out_proj")

    def embed(ids: Tensor, side: str) -> Tensor:
        table = t[f"{side}.embed_tokens.weight"]
        dim = table.shape[1]
        scale = 1.0 if arguments.get("no_scale_embedding") else math.sqrt(dim)
        places = torch.arange(PADDING + 1, PADDING + 1 + ids.shape[1])
        if arguments.get(f"{side}_learned_pos"):
            positions = t[f"{side}.embed_positions.weight"][places]
        else:
            rates = torch.exp(torch.arange(dim // 2) * -(math.log(10000) / (dim // 2 - 1)))
            angles = places[:, None] * rates[None]
            positions = torch.cat([angles.sin(), angles.cos()], 1)
        x = table[ids] * scale + positions
        return norm(x, f"{side}.layernorm_embedding") if arguments.get("layernorm_embedding") else x

    def stack(x: Tensor, side: str, memory: Tensor | None) -> Tensor:
        before, is_causal = bool(arguments.get(f"{side}_normalize_before")), memory is not None

        def residual(x: Tensor, name: str, function: Any) -> Tensor:
            return x + function(norm(x, name)) if before else norm(x + function(x), name)

        for layer in range(arguments[f"{side}_layers"]):
            at = f"{side}.layers.{layer}"
            x = residual(x, f"{at}.self_attn_layer_norm", lambda y, at=at: attend(y, y, f"{at}.self_attn", is_causal))
            if memory is not None:
                x = residual(
                    x,
                    f"{at}.encoder_attn_layer_norm",
                    lambda y, at=at: attend(y, memory, f"{at}.encoder_attn", False),
                )
            x = residual(
                x, f"{at}.final_layer_norm", lambda y, at=at: linear(F.relu(linear(y, f"{at}.fc1")), f"{at}.fc2")
            )
        return norm(x, f"{side}.layer_norm") if before else x

    memory = stack(embed(source, "encoder"), "encoder", None)
    return F.linear(stack(embed(target, "decoder"), "decoder", memory), t["decoder.output_projection.weight"])
