"""CTranslate2: encoder–decoders whose residual scheme it can express, post-LN and pre-LN.

Admin and DeepNorm are folded into post-LN first. CTranslate2 has one ε for all norms, so a stack whose folded norms
have another is rescaled: with k = √(ε / ε_stack), LN_ε(k·y) = LN_ε_stack(y).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lamina.data.tokenizer import BOS, EOS, UNK, Tokenizer
from lamina.data.vocabulary import HAVE_UNKNOWNS
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.interop.auto_models.tokenizer import SOURCE, InputForm, special_names, tokenizer_json
from lamina.interop.library import require
from lamina.model.attention import Attention
from lamina.model.embedding import Embedding, LearnedPositions, Sinusoids
from lamina.model.feed_forward import FeedForward
from lamina.model.models import EncoderDecoder
from lamina.model.options import pair
from lamina.model.stack import Stack
from lamina.residual import find
from lamina.residual.post_ln import PostLN
from lamina.residual.pre_ln import PreLN
from lamina.runs.run import Run
from lamina.tasks.generating import GeneratingTask

POSITIONS = 1024
"""The number of sinusoidal positions that are stored; CTranslate2 reads no longer sequences."""


def save_ctranslate2(run: Run, folder: Path) -> list[str]:
    """Write model.bin, config.json, the vocabularies, and the tokenizers as tokenizer.json."""
    library = require("ctranslate2", "lamina export --to ctranslate2", "export")
    model = _plain(run.model)
    spec = _fill(library, model)
    assert isinstance(run.task, GeneratingTask)
    source, target = (run.task.store.tokenizer(name) for name in (run.task.input_field, run.task.output_field))
    spec.register_source_vocabulary(token_names(source, SOURCE))
    spec.register_target_vocabulary(token_names(target, SOURCE))
    names = special_names(target, SOURCE)
    spec.config.bos_token = spec.config.decoder_start_token = names[BOS]
    spec.config.eos_token, spec.config.unk_token = names[EOS], names[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.options.norm.eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    write_file(folder / "tokenizer.json", tokenizer_json(source, InputForm()).encode())
    if source.sha256 != target.sha256:
        write_file(folder / "tokenizer.target.json", tokenizer_json(target, InputForm()).encode())
    return list(_notes(model, source))


def token_names(tokenizer: Tokenizer, form: InputForm) -> list[str]:
    """The tokens by id, as tokenizer.json names them."""
    texts = tokenizer.vocabulary.tokens[1 if tokenizer.kind in HAVE_UNKNOWNS else 0 :]
    return [*special_names(tokenizer, form), *texts]


def _notes(model: EncoderDecoder, source: Tokenizer) -> Iterator[str]:
    if model.options.positions == "sinusoidal":
        yield f"the file holds {POSITIONS} positions; Lamina has no limit"
    if source.moses:
        yield "text must be divided into words by Moses' rules before tokenizer.json is applied; the file has none"


def _plain(model: Any) -> EncoderDecoder:
    """The model with schemes that CTranslate2 has; others are refused with the reason."""
    options = model.options
    reasons = {
        "it is no encoder-decoder for text": options.kind != "encoder-decoder" or bool(options.feature_dim),
        "positions are rotary": options.positions == "rotary",
        "it has no positions": options.positions == "none",
        "key-value heads are shared": options.num_kv_heads not in (None, options.num_heads),
        "feed-forward sub-layers are single matrices": options.activation == "linear",
        "attention has no output projection": not options.attention_output,
        "embeddings are normalised": options.embedding_norm,
    }
    for reason, holds in reasons.items():
        if holds:
            raise UserError(f"this model cannot be exported to CTranslate2: {reason}; use --to hf")
    schemes = [find(name) for name in pair(options.residual)]
    if all(each is PreLN for each in schemes):
        return cast(EncoderDecoder, model)
    if PreLN in schemes:
        raise UserError("CTranslate2 cannot express pre-ln in one stack and another scheme in the other; use --to hf")
    for each in schemes:
        if not (each.folds or each is PostLN):
            able = "pre-ln, post-ln, and those that fold into it (admin, deep-norm)"
            raise UserError(f"CTranslate2 cannot express the residual scheme {each.name}, only {able}; use --to hf")
    folded = cast(EncoderDecoder, model.fold())
    for stack in folded.stacks():
        _rescale(stack)
    return folded


@torch.no_grad()
def _rescale(stack: Stack) -> None:
    """Scale the stream so that the stack's outputs stay the same with the ε of the options."""
    residual = cast(PostLN, stack.residual)
    factor = residual.options.eps_factor**-0.5
    if factor == 1:
        return
    entries = stack.entries
    if residual.input_scale is None:
        residual.input_scale = nn.Parameter(entries[0].matrices[0].weight.new_ones(stack.shape.model_dim))
    residual.input_scale.mul_(factor)
    for entry in entries:
        for matrix in entry.matrices:
            if matrix.reads_stream:
                matrix.weight.div_(factor)
            if matrix.writes_branch:
                matrix.weight.mul_(factor)
                if matrix.bias is not None:
                    matrix.bias.mul_(factor)
        norm = cast(Any, entry.site).norm
        norm.eps = stack.options.norm.eps
        if entry is not entries[-1]:  # the last norm ends the stream, in the scale that others read
            for parameter in norm.parameters():
                parameter.mul_(factor)


def _fill(library: Any, model: EncoderDecoder) -> Any:
    """CTranslate2's description of the model, with the weights."""
    options = model.options
    specs = library.specs
    activations = {
        "relu": specs.Activation.RELU,
        "gelu": specs.Activation.GELU,
        "gelu-tanh": specs.Activation.GELUTanh,
        "silu": specs.Activation.SWISH,
        "swiglu": specs.Activation.SWISH,
    }
    is_pre = find(pair(options.residual)[0]) is PreLN
    spec = specs.TransformerSpec.from_config(
        pair(options.num_layers),
        options.num_heads,
        pre_norm=is_pre,
        activation=activations[options.activation],
        ffn_glu=options.activation == "swiglu",
        rms_norm=options.norm.kind == "rms",
    )
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], model.encoder, "source", model.source_embedding),
        (spec.decoder, spec.decoder.embeddings, model.decoder, model._target, model.target_embedding),
    )
    for side, table, stack, name, embedding in sides:
        scale = _input_scale(stack)
        side.scale_embeddings = False
        table.weight = _array(model.tables[name].weight * embedding.scale * scale)
        side.position_encodings.encodings = _array(_positions(embedding) * scale)
        if is_pre:
            _fill_norm(side.layer_norm, cast(PreLN, stack.residual).final_norm)
        for place, layer in zip(side.layer, stack.layers, strict=True):
            parts = [place.self_attention, *([place.attention] if stack is model.decoder else []), place.ffn]
            for part, sublayer, site in zip(parts, layer.sublayers, layer.sites, strict=True):
                _fill_norm(part.layer_norm, cast(Any, site).norm)
                if isinstance(sublayer, Attention):
                    _fill_attention(part, sublayer)
                else:
                    _fill_feed_forward(part, cast(FeedForward, sublayer))
    spec.decoder.projection.weight = _array(model.output_table.weight)
    if model.head.bias is not None:
        spec.decoder.projection.bias = _array(model.head.bias)
    return spec


def _input_scale(stack: Stack) -> Tensor | float:
    scale = getattr(stack.residual, "input_scale", None)
    return 1.0 if scale is None else scale


def _positions(embedding: Embedding) -> Tensor:
    if isinstance(embedding.positions, LearnedPositions):
        return embedding.positions.table.weight
    places = torch.arange(POSITIONS)
    return cast(Sinusoids, embedding.positions)(places, POSITIONS, like=torch.zeros(1))


def _fill_attention(part: Any, sublayer: Attention) -> None:
    groups = [[sublayer.query, sublayer.key, sublayer.value], [sublayer.output]]
    if sublayer.kind == "cross-attention":
        groups = [[sublayer.query], [sublayer.key, sublayer.value], [sublayer.output]]
    for linear, group in zip(part.linear, groups, strict=True):
        _fill_linear(linear, *cast(list[nn.Linear], group))


def _fill_feed_forward(part: Any, sublayer: FeedForward) -> None:
    if sublayer.gate is None:
        _fill_linear(part.linear_0, sublayer.inner)
    else:
        _fill_linear(part.linear_0, sublayer.gate)
        _fill_linear(part.linear_0_noact, sublayer.inner)
    _fill_linear(part.linear_1, sublayer.outer)


def _fill_linear(part: Any, *linears: nn.Linear) -> None:
    part.weight = _array(torch.cat([each.weight for each in linears]))
    if linears[0].bias is not None:
        part.bias = _array(torch.cat([each.bias for each in linears]))


def _fill_norm(part: Any, norm: Any) -> None:
    part.gamma = _array(norm.weight)
    if not isinstance(norm, nn.RMSNorm):
        part.beta = _array(norm.weight * 0 if norm.bias is None else norm.bias)


def _array(values: Tensor) -> np.ndarray:
    return values.detach().float().cpu().contiguous().numpy()
