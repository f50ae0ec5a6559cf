"""fairseq's `transformer`: an encoder–decoder, post-LN or pre-LN, with fixed or learned positions.

    checkpoint_best.pt, dict.de.txt, dict.en.txt     as fairseq saves them; the pickle needs --read-pt
    model.safetensors, config.json, dict.….txt       the tensors of its entry `model`; its arguments as JSON, with the
                                                     key "model_type": "fairseq"

Positions count from padding + 1 = 2. The decoder begins with </s>, which becomes Lamina's <bos>. Text is the words of
the dictionaries with spaces between them, as fairseq itself reads it: byte-pair encoding comes before.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from lamina.data.tokenizer import BOS, EOS, PAD, SPECIALS, UNK
from lamina.errors import UserError
from lamina.interop.imports.encoder_decoder_weights import FIXED_POSITIONS, halved_sinusoids, map_layers
from lamina.interop.imports.foreign_model import ForeignConfig, ForeignModel
from lamina.interop.imports.tensor_files import read_pickled
from lamina.interop.imports.token_rows import TokenRows, words_of
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions
from lamina.residual.post_ln import PostLN
from lamina.residual.pre_ln import PreLN

MARKS = ("<s>", "<pad>", "</s>", "<unk>")
PADDING, END, UNKNOWN = 1, 2, 3
FIRST_POSITION = PADDING + 1
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_fast": "gelu-tanh", "gelu_accurate": "gelu-tanh", "swish": "silu"}
UNUSED = (
    r"(encoder|decoder)\.(version|embed_positions\._float_tensor)"
    r"|(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight"
)
"""Version numbers, and copies of shared tables."""
SEGMENTED = (
    "text is the words of the dictionary with spaces between them: apply the byte-pair encoding of the model first"
)


def read_fairseq_file(file: Path, *, read_pt: bool) -> tuple[ForeignConfig, dict[str, Tensor]]:
    """The arguments and the tensors of a checkpoint that fairseq saved."""
    content = read_pickled(file, read_pt=read_pt)
    if not isinstance(content, dict) or not isinstance(content.get("model"), Mapping):
        raise UserError(f"{file}: not a checkpoint of fairseq: it has no table `model`")
    given: Any = (content.get("cfg") or {}).get("model") or content.get("args")
    values = vars(given) if isinstance(given, Namespace) else given
    if not isinstance(values, Mapping):
        raise UserError(f"{file}: the checkpoint has no arguments of a model, neither `args` nor `cfg.model`")
    tensors = {str(name): value for name, value in content["model"].items() if isinstance(value, Tensor)}
    return ForeignConfig(values, str(file)), tensors


def read_fairseq(folder: Path, config: ForeignConfig) -> ForeignModel:
    """An encoder–decoder of the architecture `transformer`; the dictionaries are in `folder`."""
    arch = str(config.get("arch", config.get("_name", "transformer")))
    if not arch.startswith("transformer") or "_lm" in arch or config.get("encoder_layers") is None:
        raise UserError(f"{config.where}: fairseq's architecture {arch!r} cannot be imported, only its transformer")
    _refuse_variants(config)
    pre = [bool(config.get(f"{side}_normalize_before", False)) for side in ("encoder", "decoder")]
    learned = [bool(config.get(f"{side}_learned_pos", False)) for side in ("encoder", "decoder")]
    source, target = _dictionaries(folder, config)
    if config.get("share_all_embeddings", False):
        shared = "all"
    else:
        shared = "decoder" if config.get("share_decoder_input_output_embed", False) else "none"
    longest = min(config.number(f"max_{side}_positions", 1024) for side in ("source", "target"))
    model = {
        "residual": tuple(PreLN.name if each else PostLN.name for each in pre),
        "num_layers": (config.number("encoder_layers", 6), config.number("decoder_layers", 6)),
        "model_dim": config.same("encoder_embed_dim", "decoder_embed_dim", 512),
        "feed_forward_dim": config.same("encoder_ffn_embed_dim", "decoder_ffn_embed_dim", 2048),
        "num_heads": config.same("encoder_attention_heads", "decoder_attention_heads", 8),
        "activation": config.choose("activation_fn", "relu", ACTIVATIONS),
        "positions": "learned",
        "max_length": longest,
        "scale_embeddings": not config.get("no_scale_embedding", False),
        "embedding_norm": bool(config.get("layernorm_embedding", False)),
        "shared_embeddings": shared,
        "output_bias": True,
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "activation_dropout": config.get("activation_dropout", config.get("relu_dropout", 0.0)),
        "init": "fairseq",
    }
    notes = [SEGMENTED] if all(learned) else [SEGMENTED, FIXED_POSITIONS]
    return ForeignModel(
        task="translation",
        model=model,
        tokenizers={"source": source.tokenizer, "target": target.tokenizer},
        map_weights=lambda weights, options: _map(weights, options, config, (source, target), learned),
        unused=UNUSED,
        notes=tuple(notes),
    )


def _refuse_variants(config: ForeignConfig) -> None:
    for name in ("adaptive_softmax_cutoff", "encoder_layers_to_keep", "decoder_layers_to_keep"):
        config.refuse(name, None, "it changes the layers or the output layer")
    for name in (
        "no_token_positional_embeddings",
        "cross_self_attention",
        "no_cross_attention",
        "tie_adaptive_weights",
    ):
        config.refuse(name, False, "Lamina's encoder–decoder has no such variant")
    config.refuse("no_decoder_final_norm", False, "pre-LN ends with a norm")
    config.refuse("adaptive_input", False, "adaptive embeddings are for Lamina's language models")


def _dictionaries(folder: Path, config: ForeignConfig) -> tuple[TokenRows, TokenRows]:
    """The dictionaries of source and target: of the named languages, or the only one."""
    found = sorted(folder.glob("dict*.txt"))
    if len(found) == 1:
        rows = _read_dictionary(found[0])
        return rows, rows
    names = [config.get(f"{side}_lang") for side in ("source", "target")]
    files = [folder / f"dict.{name}.txt" for name in names]
    if missing := [file for file, name in zip(files, names, strict=True) if name is None or not file.is_file()]:
        there = ", ".join(each.name for each in found) or "none"
        raise UserError(
            f"{missing[0]}: no such dictionary, so it is not known what the token ids mean (there: {there}); copy the "
            "dict.….txt of source and target beside the checkpoint, or one dict.txt for both"
        )
    source = _read_dictionary(files[0])
    return source, source if files[0].read_bytes() == files[1].read_bytes() else _read_dictionary(files[1])


def _read_dictionary(file: Path) -> TokenRows:
    """Lines of a token and its count, after four special tokens that are not in the file."""
    tokens = list(MARKS)
    try:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            token, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
            if not token or not count.isdigit():
                raise UserError(f"{file}: line {number} is not a token and its count: {line[:40]!r}")
            tokens.append(token)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read as a dictionary of fairseq ({error})") from None
    if len(set(tokens)) != len(tokens):
        raise UserError(f"{file}: a token is there twice; the file is damaged")
    ends = {EOS: END, UNK: UNKNOWN}
    return words_of(tokens, len(MARKS), {PAD: PADDING, BOS: END, **ends}, ends)


def _map(
    weights: WeightMapping,
    options: ModelOptions,
    config: ForeignConfig,
    rows: tuple[TokenRows, TokenRows],
    learned: list[bool],
) -> None:
    dim, sizes = options.model_dim, [len(each.read) - len(SPECIALS) + len(MARKS) for each in rows]
    weights.own["tables.source.weight"] = rows[0].embedding(weights.take("encoder.embed_tokens.weight", sizes[0], dim))
    if options.shared_embeddings != "all":
        table = weights.take("decoder.embed_tokens.weight", sizes[1], dim)
        weights.own["tables.target.weight"] = rows[1].embedding(table)
    if options.shared_embeddings == "none":
        output = weights.take("decoder.output_projection.weight", sizes[1], dim)
        weights.own["tables.output.weight"] = rows[1].output(output)
    weights.own["head.bias"] = rows[1].bias()
    for side, name, is_learned in zip(("source", "target"), ("encoder", "decoder"), learned, strict=True):
        own = f"{side}_embedding.positions.table.weight"
        if is_learned:
            count = config.number(f"max_{side}_positions", 1024) + FIRST_POSITION
            table = weights.take(f"{name}.embed_positions.weight", count, dim)
            weights.own[own] = table[FIRST_POSITION : FIRST_POSITION + options.max_length]
        else:
            weights.own[own] = halved_sinusoids(options.max_length, dim, first=FIRST_POSITION, last_wavelength=True)
        if options.embedding_norm:
            weights.norm(f"{side}_embedding.norm", f"{name}.layernorm_embedding", dim)
    map_layers(weights, options, "")
