"""Marian (OPUS-MT): a post-LN encoder–decoder with fixed sinusoids and a bias on the scores of words.

The decoder begins with the padding token, which becomes Lamina's <bos>. The released models have a SentencePiece model
for each side, which Lamina does not read: without a tokenizer.json, text is the pieces of vocab.json with spaces
between them.
"""

from __future__ import annotations

from pathlib import Path

from lamina.data.tokenizer import BOS, EOS, PAD, UNK
from lamina.interop.imports.encoder_decoder_weights import FIXED_POSITIONS, halved_sinusoids, map_layers
from lamina.interop.imports.foreign_model import ForeignConfig, ForeignModel
from lamina.interop.imports.token_rows import TOKENIZER, TokenRows, read_token_rows
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions
from lamina.residual.post_ln import PostLN

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "swish": "silu",
    "silu": "silu",
}
UNUSED = r"model\.(encoder|decoder)\.embed_(positions|tokens)\.weight|model\.shared\.weight|lm_head\.weight"
"""Sinusoids, which are computed here, and copies of the shared table."""
VOCABULARY, UNKNOWN = "vocab.json", 1
PIECES = (
    "there is no tokenizer.json beside the model: text is the pieces of vocab.json with spaces between them, as "
    "spm_encode gives them with source.spm; outputs are pieces of target.spm"
)


def read_marian(folder: Path, config: ForeignConfig) -> ForeignModel:
    """A MarianMTModel whose encoder and decoder share one vocabulary."""
    config.refuse("share_encoder_decoder_embeddings", True, "source and target with vocabularies of their own are not")
    config.refuse("tie_word_embeddings", True, "an output layer of its own is not a Marian's")
    size, dim = config.number("vocab_size", 58_101), config.number("d_model", 1024)
    padding, end = config.token("pad_token_id", size - 1), config.token("eos_token_id", 0)
    start = config.token("decoder_start_token_id", padding)
    read = {PAD: padding, BOS: start, EOS: end, UNK: UNKNOWN}
    rows, notes = read_token_rows(folder, size, read, {EOS: end, UNK: UNKNOWN}, vocabulary=VOCABULARY)
    if not notes and not (folder / TOKENIZER).is_file():
        notes.append(PIECES)
    model = {
        "residual": PostLN.name,
        "num_layers": (config.number("encoder_layers", 12), config.number("decoder_layers", 12)),
        "model_dim": dim,
        "feed_forward_dim": config.same("encoder_ffn_dim", "decoder_ffn_dim", 4096),
        "num_heads": config.same("encoder_attention_heads", "decoder_attention_heads", 16),
        "activation": config.choose("activation_function", "gelu", ACTIVATIONS),
        "positions": "learned",
        "max_length": config.number("max_position_embeddings", 1024),
        "scale_embeddings": bool(config.get("scale_embedding", False)),
        "shared_embeddings": "all",
        "output_bias": True,
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "activation_dropout": config.get("activation_dropout", 0.0),
    }
    return ForeignModel(
        task="translation",
        model=model,
        tokenizers={"source": rows.tokenizer, "target": rows.tokenizer},
        map_weights=lambda weights, options: _map(weights, options, rows, size),
        unused=UNUSED,
        notes=(*notes, FIXED_POSITIONS),
    )


def _map(weights: WeightMapping, options: ModelOptions, rows: TokenRows, size: int) -> None:
    dim, prefix = options.model_dim, "model."
    weights.own["tables.source.weight"] = rows.embedding(weights.take("model.shared.weight", size, dim))
    positions = halved_sinusoids(options.max_length, dim)
    for side in ("source", "target"):
        weights.own[f"{side}_embedding.positions.table.weight"] = positions.clone()
    weights.own["head.bias"] = rows.bias(weights.take("final_logits_bias", 1, size).squeeze(0))
    map_layers(weights, options, prefix)
