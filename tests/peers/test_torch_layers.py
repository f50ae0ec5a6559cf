"""Whole models against torch's own encoder and decoder layers, post-LN and pre-LN."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.model.attention import Attention
from lamina.model.stack import Stack
from lamina.model.transformer import Transformer
from support.small_models import SMALL, SOURCE, TARGET
from support.twins import Twins, assert_close

pytestmark = pytest.mark.peers
DIM = SMALL["model_dim"]

either_scheme = pytest.mark.parametrize(("residual", "norm_first"), [("post-ln", False), ("pre-ln", True)])
every_depth = pytest.mark.parametrize("num_layers", [1, 2, 6])
every_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


class TorchEncoder(nn.Module):
    """Embedding, sinusoids and torch's encoder; with a causal mask, a language model without its head."""

    def __init__(self, num_layers: int, norm_first: bool, activation: str) -> None:
        super().__init__()
        self.table = nn.Embedding(SMALL["vocab_size"], DIM)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**_layer_options(norm_first, activation)),
            num_layers,
            norm=nn.LayerNorm(DIM) if norm_first else None,
            enable_nested_tensor=False,
        )

    def forward(self, ids: Tensor, causal: bool = False) -> Tensor:
        x = _embed(self.table, ids)
        return self.encoder(x, mask=_future(ids) if causal else None, src_key_padding_mask=ids == 0)


class TorchEncoderDecoder(TorchEncoder):
    """The same with torch's decoder and one table for source, target and output."""

    def __init__(self, num_layers: int, norm_first: bool, activation: str) -> None:
        super().__init__(num_layers, norm_first, activation)
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**_layer_options(norm_first, activation)),
            num_layers,
            norm=nn.LayerNorm(DIM) if norm_first else None,
        )

    def translate(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = self.decoder(
            _embed(self.table, target),
            self(source),
            tgt_mask=_future(target),
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return hidden @ self.table.weight.T


def _layer_options(norm_first: bool, activation: str) -> dict[str, Any]:
    sizes = {"d_model": DIM, "nhead": SMALL["num_heads"], "dim_feedforward": SMALL["feed_forward_dim"]}
    return sizes | {"activation": activation, "norm_first": norm_first, "dropout": 0.0, "batch_first": True}


def _future(ids: Tensor) -> Tensor:
    length = ids.shape[1]
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def _embed(table: nn.Embedding, ids: Tensor) -> Tensor:
    place = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
    angle = place / 10_000 ** (torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
    positions = torch.zeros(ids.shape[1], DIM, dtype=torch.float64)
    positions[:, 0::2], positions[:, 1::2] = angle.sin(), angle.cos()
    return table(ids) * DIM**0.5 + positions.to(table.weight.dtype)


def pair_stack(twins: Twins, ours: Stack, theirs: nn.TransformerEncoder | nn.TransformerDecoder) -> None:
    for layer, other in zip(ours.layers, theirs.layers, strict=True):
        attentions = [module for module in (other.self_attn, getattr(other, "multihead_attn", None)) if module]
        *own_attentions, feed_forward = layer.sublayers
        for mine, attention in zip(own_attentions, attentions, strict=True):
            pair_attention(twins, mine, attention)
        twins.module(feed_forward.inner, other.linear1)
        twins.module(feed_forward.outer, other.linear2)
        for number, site in enumerate(layer.sites, start=1):
            twins.module(site.norm, getattr(other, f"norm{number}"))
    if theirs.norm is not None:
        twins.module(ours.residual.final_norm, theirs.norm)


def pair_attention(twins: Twins, ours: Attention, theirs: nn.MultiheadAttention) -> None:
    for at, matrix in enumerate((ours.query, ours.key, ours.value)):  # theirs is one matrix of three blocks of rows
        twins.pair(matrix.weight, theirs.in_proj_weight, lambda joint, at=at: joint.chunk(3)[at])
        twins.pair(matrix.bias, theirs.in_proj_bias, lambda joint, at=at: joint.chunk(3)[at])
    twins.module(ours.output, theirs.out_proj)


def encoder_twins(kind: str, residual: str, num_layers: int, norm_first: bool, activation: str) -> Twins:
    shape = {"kind": kind, "head": "none", "residual": residual, "num_layers": num_layers, "activation": activation}
    ours = Transformer.from_preset("base", **(SMALL | shape))
    theirs = TorchEncoder(num_layers, norm_first, activation)
    twins = Twins(ours, theirs)
    twins.module(ours.tables["input"], theirs.table)
    pair_stack(twins, ours.stack, theirs.encoder)
    twins.equalise()
    return twins


def encoder_decoder_twins(residual: str, num_layers: int, norm_first: bool, activation: str = "relu") -> Twins:
    ours = Transformer.from_preset(
        "base", **(SMALL | {"residual": residual, "num_layers": num_layers, "activation": activation})
    )
    theirs = TorchEncoderDecoder(num_layers, norm_first, activation)
    twins = Twins(ours, theirs)
    twins.module(ours.tables["source"], theirs.table)
    pair_stack(twins, ours.encoder, theirs.encoder)
    pair_stack(twins, ours.decoder, theirs.decoder)
    twins.equalise()
    return twins


@either_scheme
@every_depth
@every_activation
@pytest.mark.usefixtures("float64")
def test_encoder(residual: str, norm_first: bool, num_layers: int, activation: str) -> None:
    twins = encoder_twins("encoder", residual, num_layers, norm_first, activation)
    real = SOURCE != 0
    twins.assert_agree(twins.ours(SOURCE)[real], twins.theirs(SOURCE)[real])
    twins.assert_agree(twins.ours(SOURCE[real], lengths=real.sum(1)), twins.theirs(SOURCE)[real])


@either_scheme
@every_depth
@pytest.mark.usefixtures("float64")
def test_causal_stack(residual: str, norm_first: bool, num_layers: int) -> None:
    twins = encoder_twins("decoder", residual, num_layers, norm_first, "relu")
    real = SOURCE != 0
    twins.assert_agree(twins.ours(SOURCE)[real], twins.theirs(SOURCE, causal=True)[real])
    packed = twins.ours(SOURCE[real], lengths=real.sum(1))
    twins.assert_agree(packed, twins.theirs(SOURCE, causal=True)[real])


@either_scheme
@every_depth
@every_activation
@pytest.mark.usefixtures("float64")
def test_encoder_decoder(residual: str, norm_first: bool, num_layers: int, activation: str) -> None:
    twins = encoder_decoder_twins(residual, num_layers, norm_first, activation)
    real_source, real = SOURCE != 0, TARGET != 0
    twins.assert_agree(twins.ours(SOURCE, TARGET)[real], twins.theirs.translate(SOURCE, TARGET)[real])
    packed = twins.ours(
        SOURCE[real_source], TARGET[real], source_lengths=real_source.sum(1), target_lengths=real.sum(1)
    )
    twins.assert_agree(packed, twins.theirs.translate(SOURCE, TARGET)[real])


@either_scheme
def test_encoder_decoder_in_single_precision(residual: str, norm_first: bool) -> None:
    twins = encoder_decoder_twins(residual, 6, norm_first)
    real = TARGET != 0
    assert_close(twins.ours(SOURCE, TARGET)[real], twins.theirs.translate(SOURCE, TARGET)[real], 1e-5)


@either_scheme
@pytest.mark.usefixtures("float64")
def test_decoding_token_by_token(residual: str, norm_first: bool) -> None:
    twins = encoder_decoder_twins(residual, 2, norm_first)
    ours = twins.ours.eval()
    at_once = twins.theirs.translate(SOURCE, TARGET)
    memory, memory_sequences = ours.encode(SOURCE)
    cache = ours.new_cache(num_rows=len(TARGET), capacity=TARGET.shape[1])
    for at in range(int((TARGET != 0).sum(1).min())):
        step = ours.step(TARGET[:, at], [1] * len(TARGET), memory, memory_sequences, cache)
        assert_close(step, at_once[:, at], 1e-10)
