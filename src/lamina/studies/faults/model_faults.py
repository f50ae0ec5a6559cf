"""Faults of the model: what is trained, weights, norms, residual connections, attention and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lamina.studies.faults.models import WIDTH, Trial, faulty_layer, named_module, wrap


def freeze(trial: Trial) -> None:
    faulty_layer(trial).requires_grad_(False)


def detach(trial: Trial) -> None:
    wrap(faulty_layer(trial), lambda forward, x: forward(x.detach()))


def add_unused(trial: Trial) -> None:
    faulty_layer(trial).add_module("extra", nn.Linear(WIDTH, WIDTH))


@torch.no_grad()
def zero_gain(trial: Trial) -> None:
    norm = named_module(trial, "norm")
    for each in norm.parameters():
        each.zero_()


def without_final_norm(trial: Trial) -> None:
    model: Any = trial.model
    owner = model if trial.is_torch else model.transformer
    setattr(owner, "norm" if trial.is_torch else "ln_f", nn.Identity())


@torch.no_grad()
def scale_weights(trial: Trial, factor: float) -> None:
    for each in trial.model.parameters():
        if each.dim() == 2:
            each.mul_(factor)


@torch.no_grad()
def overflow(trial: Trial) -> None:
    """A branch beyond half precision whose result is as before: fp32 does not show it."""
    inner: Any = named_module(trial, "inner")
    inner.weight.mul_(1e5)
    outer: Any = faulty_layer(trial).outer if trial.is_torch else faulty_layer(trial).mlp.c_proj
    outer.weight.mul_(1e-5)


def without_scale(trial: Trial) -> None:
    for each in trial.layers:
        attention: Any = each.attention if trial.is_torch else each.attn
        if trial.is_torch:
            attention.scale = 1.0
        else:
            attention.scaling = 1.0
            attention.scale_attn_weights = False


def mask(trial: Trial, *, inverted: bool) -> None:
    for each in trial.layers:
        attention: Any = each.attention if trial.is_torch else each.attn
        if inverted:
            wrap(attention, _backwards)
        elif trial.is_torch:
            attention.causal = False
        else:
            wrap(attention, _both_ways)


def _backwards(forward: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Attention to later positions only: a causal mask on the sequence in reverse."""
    output = forward(x.flip(1))
    return (output[0].flip(1), *output[1:]) if isinstance(output, tuple) else output.flip(1)


def _both_ways(forward: Callable[[Tensor], Any], x: Tensor) -> Any:
    one, other = forward(x), forward(x.flip(1))
    return ((one[0] + other[0].flip(1)) / 2, *one[1:])


@torch.no_grad()
def kill_units(trial: Trial) -> None:
    inner: Any = named_module(trial, "inner")
    inner.bias.fill_(-10.0)


def drop_most(trial: Trial) -> None:
    dropout: Any = faulty_layer(trial).dropout if trial.is_torch else faulty_layer(trial).mlp.dropout
    dropout.p = 0.9


def double_residual(trial: Trial) -> None:
    wrap(faulty_layer(trial), lambda forward, x: forward(x) + x)


def without_residual(trial: Trial) -> None:
    wrap(faulty_layer(trial), lambda forward, x: forward(x) - x)


def without_norm(trial: Trial) -> None:
    setattr(faulty_layer(trial), "norm1" if trial.is_torch else "ln_1", nn.Identity())


def copy_tied(trial: Trial) -> None:
    """The output layer is a copy of the embedding instead of the embedding itself."""
    head, embedding = named_module(trial, "head"), named_module(trial, "embedding")
    head.weight = nn.Parameter(embedding.weight.detach().clone() * (WIDTH**-0.5 if trial.is_torch else 1.0))
    if trial.is_torch:
        with torch.no_grad():
            embedding.weight.copy_(head.weight)


def large_embedding(trial: Trial) -> None:
    """Embeddings of variance 1 are multiplied by √width twice."""
    copy = named_module(trial, "head")
    copy.weight = nn.Parameter(copy.weight.detach().clone())
    if not trial.is_torch:
        config: Any = trial.model.config
        config.tie_word_embeddings = False
    factor = WIDTH if trial.is_torch else WIDTH**1.5
    named_module(trial, "embedding").register_forward_hook(lambda module, arguments, output: output * factor)


@torch.no_grad()
def put_nan(trial: Trial) -> None:
    inner: Any = named_module(trial, "inner")
    inner.weight[0, 0] = float("nan")


def mix_batch(trial: Trial) -> None:
    """A layer that takes the batch for the positions, as torch's layers without batch_first do."""
    wrap(faulty_layer(trial), lambda forward, x: forward(x.transpose(0, 1)).transpose(0, 1))
