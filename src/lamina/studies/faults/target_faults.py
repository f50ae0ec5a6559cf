"""Faults of the batches and of the loss: targets, padding, and the formula of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.studies.faults.models import Trial


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


def log_of_zero(trial: Trial) -> None:
    def logarithm(logits: Tensor, tokens: Tensor) -> Tensor:
        shares = (300 * logits[:, :-1]).softmax(-1)
        return -shares.gather(-1, tokens[:, 1:, None]).log().mean()

    compute_loss(trial, logarithm)


def softmax_twice(trial: Trial) -> None:
    def twice(logits: Tensor, tokens: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].softmax(-1).flatten(0, 1), tokens[:, 1:].flatten())

    compute_loss(trial, twice)


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
