"""A short training of a trial, and whether the model has learnt the language by then.

Losses of trials with wrong targets or a leak cannot be compared. What a model has learnt is therefore measured alike
for all: the loss of the word after the last position, which no model has seen, on other sentences without padding.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from statistics import fmean, stdev

import torch
import torch.nn.functional as F  # noqa: N812
from torch.optim import Optimizer

from lamina.studies.faults.models import Trial, sentences

TEST_SEED, TEST_SENTENCES = 10_000, 512
SEEDS = (1, 2, 3)
"""The seeds of the trials without a fault, from which the spread of the loss is known."""
DEVIATIONS, LEAST_RISE = 3.0, 0.05
"""A fault spoils training if the loss is higher than without it by three standard deviations, and by 0.05."""


def steps_of(trial: Trial, optimiser: Optimizer, steps: int) -> list[float]:
    """Train with a linear warm-up and clipping; returns the losses."""
    rates = [group["lr"] for group in optimiser.param_groups]
    losses: list[float] = []
    for step in range(steps):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / max(1, trial.warmup))
        batch = trial.batch(step)
        output = trial.model(**batch) if isinstance(batch, dict) else trial.model(*batch)
        loss = trial.loss(output, batch)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trial.model.parameters(), trial.clip)
        optimiser.step()
        losses.append(loss.item())
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate
    return losses


def trained_loss(trial: Trial, steps: int) -> float:
    """The loss of the next word after training; infinite if it diverged."""
    steps_of(trial, trial.make_optimiser(trial.model), steps)
    found = next_word_loss(trial)
    return found if isfinite(found) else inf


@torch.no_grad()
def next_word_loss(trial: Trial) -> float:
    words = sentences(TEST_SEED, TEST_SENTENCES)
    trial.model.eval()
    output = trial.model(words[:, :-1])
    logits = output if isinstance(output, torch.Tensor) else output.logits
    return F.cross_entropy(logits[:, -1], words[:, -1]).item()


def healthy_limit(make: Callable[[int], Trial], steps: int) -> tuple[float, float]:
    """The mean loss without a fault over some seeds, and the loss above which a fault has spoilt training."""
    losses = [trained_loss(make(seed), steps) for seed in SEEDS]
    mean = fmean(losses)
    return mean, mean + max(LEAST_RISE, DEVIATIONS * stdev(losses))
