"""GPT-2: pre-LN, learned positions, a tanh approximation of GELU, and one matrix for queries, keys and values.

Its linear layers are stored as (inputs, outputs), the transpose of torch's. `<|endoftext|>` begins and ends a text, as
<eos> does in Lamina's language models.
"""

from __future__ import annotations

from pathlib import Path

from lamina.data.tokenizer import EOS
from lamina.interop.imports.foreign_model import ForeignConfig, ForeignModel
from lamina.interop.imports.token_rows import TokenRows, read_token_rows
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions, pair
from lamina.residual.pre_ln import PreLN

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
UNUSED = r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"
"""Stored masks, and the output layer where it is the embedding table."""
DEFAULT_END = 50_256


def read_gpt2(folder: Path, config: ForeignConfig) -> ForeignModel:
    """A GPT2LMHeadModel or GPT2Model."""
    config.refuse("scale_attn_weights", True, "Lamina's attention is always scaled by 1/√d")
    config.refuse("scale_attn_by_inverse_layer_idx", False, "Lamina's attention is scaled alike in all layers")
    config.refuse("add_cross_attention", False, "Lamina's language models have no cross-attention")
    config.refuse("tie_word_embeddings", True, "an output layer of its own is not a GPT-2's")
    dim, length = config.number("n_embd", 768), config.number("n_positions", 1024)
    end = config.token("eos_token_id", DEFAULT_END)
    rows, notes = read_token_rows(folder, config.number("vocab_size", 50_257), {EOS: end}, {EOS: end})
    model = {
        "residual": PreLN.name,
        "num_layers": config.number("n_layer", 12),
        "model_dim": dim,
        "feed_forward_dim": config.number("n_inner", 4 * dim),
        "num_heads": config.number("n_head", 12),
        "activation": config.choose("activation_function", "gelu_new", ACTIVATIONS),
        "norm": {"eps": config.get("layer_norm_epsilon", 1e-5)},
        "positions": "learned",
        "max_length": length,
        "scale_embeddings": False,
        "shared_embeddings": "all",
        "output_bias": True,
        "dropout": config.get("resid_pdrop", 0.1),
        "attention_dropout": config.get("attn_pdrop", 0.1),
        "embedding_dropout": config.get("embd_pdrop", 0.1),
        "init": "normal",
    }
    return ForeignModel(
        task="language-modelling",
        task_options={"block_length": min(512, length)},
        model=model,
        tokenizers={"text": rows.tokenizer},
        map_weights=lambda weights, options: _map(weights, options, rows, config.number("vocab_size", 50_257)),
        unused=UNUSED,
        notes=tuple(notes),
    )


def _map(weights: WeightMapping, options: ModelOptions, rows: TokenRows, vocab_size: int) -> None:
    dim, inner = options.model_dim, options.feed_forward_dim
    top = "transformer." if "transformer.wte.weight" in weights.names else ""
    weights.own["tables.input.weight"] = rows.embedding(weights.take(f"{top}wte.weight", vocab_size, dim))
    weights.own["embedding.positions.table.weight"] = weights.take(f"{top}wpe.weight", options.max_length, dim)
    weights.own["head.bias"] = rows.bias()
    for layer in range(pair(options.num_layers)[0]):
        theirs, ours = f"{top}h.{layer}", f"stack.layers.{layer}"
        weights.norm(f"{ours}.sites.0.norm", f"{theirs}.ln_1", dim)
        weights.norm(f"{ours}.sites.1.norm", f"{theirs}.ln_2", dim)
        joined = weights.take(f"{theirs}.attn.c_attn.weight", dim, 3 * dim).t().chunk(3)
        biases = weights.take(f"{theirs}.attn.c_attn.bias", 3 * dim).chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), joined, biases, strict=True):
            weights.own[f"{ours}.sublayers.0.{name}.weight"] = weight
            weights.own[f"{ours}.sublayers.0.{name}.bias"] = bias
        transposed = (
            ("sublayers.0.output", "attn.c_proj", dim, dim),
            ("sublayers.1.inner", "mlp.c_fc", inner, dim),
            ("sublayers.1.outer", "mlp.c_proj", dim, inner),
        )
        for own, name, outputs, inputs in transposed:
            weights.own[f"{ours}.{own}.weight"] = weights.take(f"{theirs}.{name}.weight", inputs, outputs).t()
            weights.own[f"{ours}.{own}.bias"] = weights.take(f"{theirs}.{name}.bias", outputs)
    weights.norm("stack.residual.final_norm", f"{top}ln_f", dim)
