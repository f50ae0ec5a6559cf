"""Stacks against x-transformers, whose one class supports several positions of the norm.

Its attention has no biases and its norms have gains only. Two defaults are changed so that both compute the same: gains
are stored as they are (not minus one), and the softmax keeps its input's precision (not float32).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.feed_forward import FeedForward
from lamina.model.sequences import Sequences
from lamina.model.stack import Stack
from lamina.residual.norm import NormOptions
from support.twins import Twins, View

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("float64")]
DIM, HEADS, HEAD_DIM, WIDENING = 16, 4, 4, 2
LENGTHS, MEMORY_LENGTHS = [5, 2, 4], [3, 6, 1]
DEPTHS = [1, 2, 6]


class Norms(NamedTuple):
    """The names in our sites of the norms that theirs holds in this order; None if the scheme has none."""

    before_branch: str | None
    after_branch: str | None
    after_sum: str | None


SCHEMES: dict[str, tuple[Norms, dict[str, Any]]] = {
    "pre-ln": (Norms("norm", None, None), {}),
    "post-ln": (Norms(None, None, "norm"), {"pre_norm": False}),
    "sandwich-ln": (Norms("norm", "branch_norm", None), {"sandwich_norm": True}),
    "keel": (Norms("branch_norm", None, "norm"), {"pre_and_post_norm": True}),
    "layer-scale": (Norms("norm", None, None), {"use_layerscale": True}),
}
every_scheme = pytest.mark.parametrize("residual", SCHEMES)
every_depth = pytest.mark.parametrize("num_layers", DEPTHS)


def their_stack(library: Any, residual: str, num_layers: int, num_sublayers: int, causal: bool, **options: Any) -> Any:
    if residual == "keel":
        options["scale_residual_constant"] = float(num_sublayers)
    return (library.Decoder if causal else library.Encoder)(
        dim=DIM,
        depth=num_layers,
        heads=HEADS,
        attn_dim_head=HEAD_DIM,
        attn_custom_attn_fn=partial(F.softmax, dim=-1),
        ff_mult=WIDENING,
        norm_add_unit_offset=False,
        **SCHEMES[residual][1],
        **options,
    )


def our_stack(residual: str, num_layers: int, *, causal: bool, crossed: bool = False) -> Stack:
    def layer() -> list[nn.Module]:
        crossing = [CrossAttention(DIM, HEADS, bias=False)] if crossed else []
        own = SelfAttention(DIM, HEADS, causal=causal, bias=False)
        return [own, *crossing, FeedForward(DIM, DIM * WIDENING, activation="gelu")]

    layers = [layer() for _ in range(num_layers)]
    return Stack(layers, model_dim=DIM, residual=residual, norm=NormOptions(bias=False))


def paired(ours: Stack, theirs: Any, residual: str) -> Twins:
    """Theirs lists sub-layers, each with its norms; ours lists layers."""
    twins = Twins(ours, theirs)
    mine = [pair for layer in ours.layers for pair in zip(layer.sublayers, layer.sites, strict=True)]
    for (sublayer, site), (norms, block, _) in zip(mine, theirs.layers, strict=True):
        if residual == "layer-scale":
            twins.pair(site.scale, block.gamma)
            block = block.fn
        if isinstance(sublayer, FeedForward):
            pair_feed_forward(twins, sublayer, block)
        else:
            twins.attention(sublayer, block.to_q, block.to_k, block.to_v, block.to_out)
        for name, norm in zip(SCHEMES[residual][0], norms, strict=True):
            if norm is not None:
                twins.pair(getattr(site, name).weight, norm.gamma)
    if hasattr(ours.residual, "final_norm"):
        twins.pair(ours.residual.final_norm.weight, theirs.final_norm.gamma)
    twins.equalise()
    return twins


def pair_feed_forward(twins: Twins, ours: FeedForward, theirs: Any) -> None:
    widening, narrowing = (module for module in theirs.ff.modules() if isinstance(module, nn.Linear))
    twins.module(ours.inner, widening)
    twins.module(ours.outer, narrowing)


def batch(lengths: list[int]) -> tuple[Tensor, Tensor, Sequences]:
    """Padded input with noise as padding, its mask of real positions, and the boundaries of its sequences."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), max(lengths), DIM), real, Sequences(lengths)


@every_scheme
@every_depth
@pytest.mark.parametrize("causal", [False, True])
def test_stack(x_transformers: Any, residual: str, num_layers: int, causal: bool) -> None:
    ours = our_stack(residual, num_layers, causal=causal)
    theirs = their_stack(x_transformers, residual, num_layers, 2 * num_layers, causal)
    twins = paired(ours, theirs, residual)
    x, real, sequences = batch(LENGTHS)
    twins.assert_agree(ours(x[real], sequences=sequences), theirs(x, mask=real)[real])


@every_scheme
@every_depth
def test_decoder_with_cross_attention(x_transformers: Any, residual: str, num_layers: int) -> None:
    ours = our_stack(residual, num_layers, causal=True, crossed=True)
    theirs = their_stack(x_transformers, residual, num_layers, 3 * num_layers, True, cross_attend=True)
    twins = paired(ours, theirs, residual)
    x, real, sequences = batch(LENGTHS)
    memory, real_memory, memory_sequences = batch(MEMORY_LENGTHS)
    twins.assert_agree(
        ours(x[real], sequences=sequences, memory=memory[real_memory], memory_sequences=memory_sequences),
        theirs(x, context=memory, mask=real, context_mask=real_memory)[real],
    )


@every_depth
def test_rms_norm_rotary_positions_grouped_heads_and_swiglu(x_transformers: Any, num_layers: int) -> None:
    """The components of current language models. Theirs has no eps in the RMS norm and rotates in float32."""
    kv_heads = 2
    layers = [
        [
            SelfAttention(DIM, HEADS, num_kv_heads=kv_heads, causal=True, rotary=True, bias=False),
            FeedForward(DIM, DIM * WIDENING, activation="swiglu"),
        ]
        for _ in range(num_layers)
    ]
    ours = Stack(layers, model_dim=DIM, residual="pre-ln", norm=NormOptions(kind="rms", eps=1e-30))
    theirs = their_stack(
        x_transformers,
        "pre-ln",
        num_layers,
        2 * num_layers,
        causal=True,
        use_rmsnorm=True,
        rotary_pos_emb=True,
        rotary_emb_dim=HEAD_DIM,
        verbose=False,
        attn_kv_heads=kv_heads,
        ff_glu=True,
        ff_swish=True,
    )
    twins = Twins(ours, theirs)
    rows, columns = _heads_in_our_order(kv_heads)
    for layer, (norms, attention, _), (more_norms, block, _) in zip(
        ours.layers, theirs.layers[0::2], theirs.layers[1::2], strict=True
    ):
        mine, feed_forward = layer.sublayers
        twins.pair(mine.query.weight, attention.to_q.weight, rows)
        twins.module(mine.key, attention.to_k)
        twins.module(mine.value, attention.to_v)
        twins.pair(mine.output.weight, attention.to_out.weight, columns)
        widening, narrowing = (module for module in block.ff.modules() if isinstance(module, nn.Linear))
        for at, matrix in enumerate((feed_forward.inner, feed_forward.gate)):
            twins.pair(matrix.weight, widening.weight, lambda joint, at=at: joint.chunk(2)[at])
            twins.pair(matrix.bias, widening.bias, lambda joint, at=at: joint.chunk(2)[at])
        twins.module(feed_forward.outer, narrowing)
        for site, norm in zip(layer.sites, (norms[0], more_norms[0]), strict=True):
            twins.pair(site.norm.weight, norm.g)
    twins.pair(ours.residual.final_norm.weight, theirs.final_norm.g)
    twins.equalise()
    x, real, sequences = batch(LENGTHS)
    twins.assert_agree(ours(x[real], sequences=sequences), theirs(x, mask=real)[real], 1e-6)


def _heads_in_our_order(kv_heads: int) -> tuple[View, View]:
    """Known difference: heads 0, 1 share our first key-value head (as in Llama), heads 0, 2 share theirs."""
    order = torch.arange(DIM).view(HEADS // kv_heads, kv_heads, HEAD_DIM).transpose(0, 1).flatten()
    return lambda weight: weight[order], lambda weight: weight[:, order]
