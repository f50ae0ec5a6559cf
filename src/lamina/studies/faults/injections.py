"""The faults: each changes a trial, and says which checks name its cause and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from lamina.studies.faults.models import LAYERS, LEARNING_RATE, WIDTH, WORDS, PlainDecoder, PostNormLayer, Trial

LAYER = 2
"""The layer, from 0, that most faults are injected into."""


@dataclass(frozen=True)
class InjectedFault:
    """An everyday fault."""

    name: str
    inject: Callable[[Trial], None]
    checks: tuple[str, ...]
    """The checks whose finding names the cause; `refused` for a model that is not measured, with the reason."""
    place: str | None = None
    """The name, in `Trial.names`, of the module that the finding should name; None where the fault has no place."""
    watched: bool = False
    """Whether only training can show it."""


def _wrap(module: nn.Module, change: Callable[[Callable[..., Any], Any], Any]) -> None:
    """Replace the forward of a module by `change(forward, x)`."""
    forward = module.forward

    def changed(x: Tensor, *arguments: Any, **options: Any) -> Any:
        return change(lambda value: forward(value, *arguments, **options), x)

    module.forward = changed


def _layer(trial: Trial) -> Any:
    return trial.layers[LAYER]


def _named(trial: Trial, name: str) -> Any:
    return trial.model.get_submodule(trial.names[name])


def freeze(trial: Trial) -> None:
    _layer(trial).requires_grad_(False)


def detach(trial: Trial) -> None:
    _wrap(_layer(trial), lambda forward, x: forward(x.detach()))


def add_unused(trial: Trial) -> None:
    _layer(trial).add_module("extra", nn.Linear(WIDTH, WIDTH))


@torch.no_grad()
def zero_gain(trial: Trial) -> None:
    norm = _named(trial, "norm")
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


def optimise(trial: Trial, **options: Any) -> None:
    trial.make_optimiser = lambda model: AdamW(model.parameters(), **({"lr": LEARNING_RATE} | options))


def ascend(trial: Trial) -> None:
    trial.make_optimiser = lambda model: SGD(model.parameters(), lr=0.1, maximize=True)


def grouped(trial: Trial, learning_rate: float | None) -> None:
    """One layer in a group of its own, or in none."""

    def make(model: nn.Module) -> AdamW:
        apart = {id(each) for each in _layer(trial).parameters()}
        groups: list[dict[str, Any]] = [{"params": [each for each in model.parameters() if id(each) not in apart]}]
        if learning_rate is not None:
            groups.append({"params": [*_layer(trial).parameters()], "lr": learning_rate})
        return AdamW(groups, lr=LEARNING_RATE)

    trial.make_optimiser = make


def post_norm(trial: Trial) -> None:
    """Eighteen post-norm layers, without warm-up, at a learning rate that pre-norm layers stand."""
    torch.manual_seed(1)
    model: Any = PlainDecoder(PostNormLayer, 18) if trial.is_torch else _gpt1()
    trial.layers = model.layers if trial.is_torch else model.transformer.h
    trial.model = model
    trial.warmup = 0
    optimise(trial, lr=1e-2)


def _gpt1() -> nn.Module:
    import transformers

    sizes: dict[str, Any] = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": 18, "n_head": 2, "n_positions": 32}
    rates: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": WIDTH**-0.5}
    build: Any = transformers.OpenAIGPTLMHeadModel
    return build(transformers.OpenAIGPTConfig(**sizes, **rates))


@torch.no_grad()
def overflow(trial: Trial) -> None:
    """A branch beyond half precision whose result is as before: fp32 does not show it."""
    inner: Any = _named(trial, "inner")
    inner.weight.mul_(1e5)
    outer: Any = _layer(trial).outer if trial.is_torch else _layer(trial).mlp.c_proj
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
            _wrap(attention, _backwards)
        elif trial.is_torch:
            attention.causal = False
        else:
            _wrap(attention, _both_ways)


def _backwards(forward: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Attention to later positions only: a causal mask on the sequence in reverse."""
    output = forward(x.flip(1))
    return (output[0].flip(1), *output[1:]) if isinstance(output, tuple) else output.flip(1)


def _both_ways(forward: Callable[[Tensor], Any], x: Tensor) -> Any:
    one, other = forward(x), forward(x.flip(1))
    return ((one[0] + other[0].flip(1)) / 2, *one[1:])


def compute_loss(trial: Trial, of_logits: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compute the loss outside the model, from logits and tokens."""
    plain = trial.batch

    def batch(seed: int) -> Any:
        given = plain(seed)
        return {"input_ids": given["input_ids"]} if isinstance(given, dict) else given

    def loss(output: Any, batch: Any) -> Tensor:
        tokens = batch["input_ids"] if isinstance(batch, dict) else batch[0]
        return of_logits(output if isinstance(output, Tensor) else output.logits, tokens)

    trial.batch, trial.loss = batch, loss


def shift_labels(trial: Trial, offset: int) -> None:
    """Targets `offset` places after their position."""

    def shifted(logits: Tensor, tokens: Tensor) -> Tensor:
        end = tokens.shape[1] - offset
        return F.cross_entropy(logits[:, :end].flatten(0, 1), tokens[:, offset:].flatten())

    compute_loss(trial, shifted)


def shuffle_targets(trial: Trial) -> None:
    def shuffled(logits: Tensor, tokens: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens.roll(3, 0)[:, 1:].flatten())

    compute_loss(trial, shuffled)


@torch.no_grad()
def kill_units(trial: Trial) -> None:
    inner: Any = _named(trial, "inner")
    inner.bias.fill_(-10.0)


def drop_most(trial: Trial) -> None:
    dropout: Any = _layer(trial).dropout if trial.is_torch else _layer(trial).mlp.dropout
    dropout.p = 0.9


def double_residual(trial: Trial) -> None:
    _wrap(_layer(trial), lambda forward, x: forward(x) + x)


def without_residual(trial: Trial) -> None:
    _wrap(_layer(trial), lambda forward, x: forward(x) - x)


def without_norm(trial: Trial) -> None:
    setattr(_layer(trial), "norm1" if trial.is_torch else "ln_1", nn.Identity())


def copy_tied(trial: Trial) -> None:
    """The output layer is a copy of the embedding instead of the embedding itself."""
    head, embedding = _named(trial, "head"), _named(trial, "embedding")
    head.weight = nn.Parameter(embedding.weight.detach().clone() * (WIDTH**-0.5 if trial.is_torch else 1.0))
    if trial.is_torch:
        with torch.no_grad():
            embedding.weight.copy_(head.weight)


def large_embedding(trial: Trial) -> None:
    """Embeddings of variance 1 are multiplied by √width twice."""
    copy = _named(trial, "head")
    copy.weight = nn.Parameter(copy.weight.detach().clone())
    if not trial.is_torch:
        config: Any = trial.model.config
        config.tie_word_embeddings = False
    factor = WIDTH if trial.is_torch else WIDTH**1.5
    _named(trial, "embedding").register_forward_hook(lambda module, arguments, output: output * factor)


@torch.no_grad()
def put_nan(trial: Trial) -> None:
    inner: Any = _named(trial, "inner")
    inner.weight[0, 0] = float("nan")


def log_of_zero(trial: Trial) -> None:
    def logarithm(logits: Tensor, tokens: Tensor) -> Tensor:
        shares = (300 * logits[:, :-1]).softmax(-1)
        return -shares.gather(-1, tokens[:, 1:, None]).log().mean()

    compute_loss(trial, logarithm)


def softmax_twice(trial: Trial) -> None:
    def twice(logits: Tensor, tokens: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].softmax(-1).flatten(0, 1), tokens[:, 1:].flatten())

    compute_loss(trial, twice)


def clip_hard(trial: Trial) -> None:
    trial.clip = 1e-4


def pad(trial: Trial, *, left: bool) -> None:
    """Half of the sentences are half padding, which no mask hides and every target counts."""
    plain = trial.batch

    def batch(seed: int) -> Any:
        given = plain(seed)
        tokens = (given["input_ids"] if isinstance(given, dict) else given[0]).clone()
        half = tokens.shape[1] // 2
        tokens[::2, (slice(0, half) if left else slice(half, None))] = 0
        return {"input_ids": tokens, "labels": tokens} if isinstance(given, dict) else (tokens,)

    trial.batch = batch


def mix_batch(trial: Trial) -> None:
    """A layer that takes the batch for the positions, as torch's layers without batch_first do."""
    _wrap(_layer(trial), lambda forward, x: forward(x.transpose(0, 1)).transpose(0, 1))


FAULTS = (
    InjectedFault("frozen layer", freeze, ("untrained",), "layer"),
    InjectedFault("detached after layer 2", detach, ("untrained",), "below"),
    InjectedFault("unused module", add_unused, ("untrained",), "layer"),
    InjectedFault("norm with gain 0", zero_gain, ("untrained",), "layer"),
    InjectedFault("no final norm", without_final_norm, ("structure",), "final"),
    InjectedFault("initialisation ×10", partial(scale_weights, factor=10.0), ("weight-scale", "initial-loss")),
    InjectedFault("initialisation ×0.01", partial(scale_weights, factor=0.01), ("weight-scale",)),
    InjectedFault(
        "learning rate ×100", partial(optimise, lr=100 * LEARNING_RATE), ("learning-rate", "step-size", "update-band")
    ),
    InjectedFault("learning rate 1e-8", partial(optimise, lr=1e-8), ("update-band",)),
    InjectedFault(
        "deep post-norm, no warm-up", post_norm, ("amplification", "vanishing", "learning-rate", "step-size")
    ),
    InjectedFault("Adam's ε 1e-2", partial(optimise, eps=1e-2), ("epsilon",)),
    InjectedFault("branch beyond fp16", overflow, ("overflow",), "inner"),
    InjectedFault("no 1/√d in attention", without_scale, ("saturated-attention",), "attention"),
    InjectedFault("no causal mask", partial(mask, inverted=False), ("targets",)),
    InjectedFault("causal mask inverted", partial(mask, inverted=True), ("targets",)),
    InjectedFault("labels not shifted", partial(shift_labels, offset=0), ("targets",)),
    InjectedFault("labels shifted twice", partial(shift_labels, offset=2), ("targets",)),
    InjectedFault("targets of other inputs", shuffle_targets, ("targets",)),
    InjectedFault("padding attended", partial(pad, left=True), ("targets",)),
    InjectedFault("padding in the loss", partial(pad, left=False), ("targets",)),
    InjectedFault("batch taken for positions", mix_batch, ("targets",)),
    InjectedFault("dead units (bias −10)", kill_units, ("dead",), "inner"),
    InjectedFault("dropout 0.9", drop_most, ("dropout",), "layer"),
    InjectedFault("residual added twice", double_residual, ("structure",), "number"),
    InjectedFault("residual missing", without_residual, ("structure",), "number"),
    InjectedFault("norm missing", without_norm, ("structure",), "number"),
    InjectedFault("tied weights copied", copy_tied, ("weight-tying",), "head"),
    InjectedFault("embedding ×√d twice", large_embedding, ("structure",), "final"),
    InjectedFault(
        "learning rate 0 for a layer", partial(grouped, learning_rate=0.0), ("update-band", "untrained"), "layer"
    ),
    InjectedFault(
        "layer not in the optimiser", partial(grouped, learning_rate=None), ("update-band", "untrained"), "layer"
    ),
    InjectedFault("weight decay 100", partial(optimise, weight_decay=100.0), ("update-band",)),
    InjectedFault("NaN in a parameter", put_nan, ("refused",), "inner"),
    InjectedFault("log of 0 in the loss", log_of_zero, ("non-finite",)),
    InjectedFault("softmax applied twice", softmax_twice, ("initial-loss",)),
    InjectedFault("gradient clipped to 1e-4", clip_hard, ("clipped",), watched=True),
    InjectedFault("β₂ 0.1", partial(optimise, betas=(0.9, 0.1)), ("optimiser-settings",)),
    InjectedFault("β₂ 0.99999", partial(optimise, betas=(0.9, 0.99999)), ("optimiser-settings",)),
    InjectedFault("loss maximised", ascend, ("step-size",)),
)
assert LAYERS > LAYER + 1
