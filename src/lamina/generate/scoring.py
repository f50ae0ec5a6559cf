"""Forced scoring: the log-probability of given outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from lamina.data.packed import PackedField, to_tensors
from lamina.generate.decoder import Model
from lamina.generate.search import ModelInput, Tokens, in_batches
from lamina.model.models import EncoderDecoder
from lamina.model.modes import evaluation_mode

Pair = tuple[ModelInput, Tokens, Tokens]  # source, prefix, target


def perplexity(total_nll: float, count: int = 1) -> float:
    """The exponential of the mean negative log-likelihood, per token or per word; capped where it would overflow."""
    return math.exp(min(700.0, total_nll / count)) if count else math.inf


@dataclass(frozen=True)
class Scored:
    """The score of a target."""

    log_probability: float
    """The log-probability of target and eos given source and prefix, in nats."""
    count: int
    """The number of tokens scored, eos included."""

    @property
    def perplexity(self) -> float:
        """The perplexity per token."""
        return perplexity(-self.log_probability, self.count)


def score(
    model: Model,
    sources: Iterable[ModelInput],
    targets: Iterable[Tokens],
    *,
    bos: int,
    eos: int,
    prefixes: Iterable[Tokens] | None = None,
    max_tokens: int = 4096,
    window: int | None = None,
) -> Iterator[Scored]:
    """The log-probability of each target, in the order of the targets."""
    if prefixes is None:
        pairs: Iterator[Pair] = ((source, (), target) for source, target in zip(sources, targets, strict=True))
    else:
        pairs = zip(sources, prefixes, targets, strict=True)

    def work(numbers: list[int], batch: list[Pair]) -> Iterator[tuple[int, Scored]]:
        return iter(enumerate(_score(model, batch, bos, eos)))

    return in_batches(pairs, work, lambda pair: (sum(map(len, pair)) + 2,), max_tokens, window)


@torch.inference_mode()
def _score(model: Model, batch: list[Pair], bos: int, eos: int) -> list[Scored]:
    has_encoder = isinstance(model, EncoderDecoder)
    starts = [[bos, *([] if has_encoder else source), *prefix] for source, prefix, _ in batch]
    targets = [target for _, _, target in batch]
    given = PackedField.of([*start, *target] for start, target in zip(starts, targets, strict=True))
    labels = PackedField.of([*start[1:], *target, eos] for start, target in zip(starts, targets, strict=True))
    device = next(model.parameters()).device
    ids, expected = (to_tensors(field)[0].to(device) for field in (given, labels))
    with evaluation_mode(model):
        if isinstance(model, EncoderDecoder):
            sources = PackedField.of(source for source, _, _ in batch)
            lengths = {"source_lengths": sources.lengths, "target_lengths": given.lengths}
            losses = model(to_tensors(sources)[0].to(device), ids, **lengths, labels=expected)
        else:
            losses = model(ids, lengths=given.lengths, labels=expected)
    by_target = np.split(losses.nll.double().cpu().numpy(), np.cumsum(given.lengths)[:-1])
    return [
        Scored(-float(own[len(start) - 1 :].sum()), len(target) + 1)
        for own, start, target in zip(by_target, starts, targets, strict=True)
    ]
