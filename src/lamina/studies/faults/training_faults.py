"""Faults of training: the optimiser and its settings, clipping, and a model that they do not suit."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW

from lamina.studies.faults.models import LEARNING_RATE, WIDTH, WORDS, PlainDecoder, PostNormLayer, Trial, faulty_layer


def optimise(trial: Trial, **options: Any) -> None:
    trial.make_optimiser = lambda model: AdamW(model.parameters(), **({"lr": LEARNING_RATE} | options))


def ascend(trial: Trial) -> None:
    trial.make_optimiser = lambda model: SGD(model.parameters(), lr=0.1, maximize=True)


def grouped(trial: Trial, learning_rate: float | None) -> None:
    """One layer in a group of its own, or in none."""

    def make(model: nn.Module) -> AdamW:
        apart = {id(each) for each in faulty_layer(trial).parameters()}
        groups: list[dict[str, Any]] = [{"params": [each for each in model.parameters() if id(each) not in apart]}]
        if learning_rate is not None:
            groups.append({"params": [*faulty_layer(trial).parameters()], "lr": learning_rate})
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


def clip_hard(trial: Trial) -> None:
    trial.clip = 1e-4
