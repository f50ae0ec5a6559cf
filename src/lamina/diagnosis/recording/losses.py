"""The loss of one pass as a classification: its classes, its targets, and the tokens that the model read.

Both are seen where torch computes them, in `cross_entropy`, `nll_loss` and `embedding`, so that no model needs to be
known. Targets that are compared with the tokens show whether labels are shifted as they should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

ROWS = 256
"""The number of rows of scores that are examined, evenly spaced."""
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class TokensRecord:
    """The tokens of one call of an embedding."""

    module: str
    tokens: Tensor  # of any shape, whole numbers
    rows: int
    """The number of rows of the table."""
    padding: int | None
    """The row that stands for padding, where the module or the model's config names one."""


@dataclass(frozen=True)
class LossRecord:
    """One call of a loss over classes."""

    module: str
    """The innermost module that was running; empty outside the model."""
    classes: int
    targets: Tensor  # (targets,), with those that are ignored
    counted: Tensor  # (targets,)
    """Whether a target counts in the loss."""
    nll: float
    """The mean of −ln p of the targets among the rows that were examined; NaN where all are ignored."""
    deviation: float
    """The mean over rows of the standard deviation of the scores."""
    are_probabilities: bool
    """Whether the scores are probabilities already, so that the softmax is applied twice."""

    @property
    def unigram(self) -> float:
        """The entropy of the targets' own distribution, Σ −q ln q: the best loss without looking at the input."""
        return entropy(self.targets[self.counted])


def entropy(tokens: Tensor) -> float:
    """Σ −q ln q of the tokens' distribution; NaN of none."""
    total = tokens.numel()
    counts = Counter(tokens.tolist()).values()
    return -sum(count / total * log(count / total) for count in counts) if total else float("nan")


@torch.no_grad()
def record_loss(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any], module: str) -> LossRecord | None:
    """The record of a call of `cross_entropy` or `nll_loss`; None where targets are not classes."""
    scores, targets = (*arguments, options.get("target"))[:2] if arguments else (options["input"], options["target"])
    if not isinstance(targets, Tensor) or targets.is_floating_point() or scores.dim() != targets.dim() + 1:
        return None
    if scores.dim() == 1:
        scores, targets = scores[None], targets[None]
    scores, targets = scores.detach().movedim(1, -1).flatten(0, -2), targets.flatten()  # (targets, classes)
    counted = targets != options.get("ignore_index", -100)
    chosen = counted.nonzero().flatten()
    chosen = chosen[torch.linspace(0, len(chosen) - 1, min(ROWS, len(chosen))).long().to(chosen.device)]
    rows, wanted = scores[chosen].float(), targets[chosen]
    inside = bool((wanted < rows.shape[-1]).all()) and bool((wanted >= 0).all())
    if not inside:
        return None  # torch raises an error of its own
    sums = rows.sum(-1)
    probabilities = len(rows) and bool((rows >= 0).all()) and bool(((sums - 1).abs() < TOLERANCE).all())
    logs = rows if name == "nll_loss" else rows.log_softmax(-1)
    nll = -logs.gather(-1, wanted[:, None]).mean().item() if len(rows) else float("nan")
    deviation = rows.std(-1).mean().item() if len(rows) and rows.shape[-1] > 1 else float("nan")
    return LossRecord(
        module,
        scores.shape[-1],
        targets.cpu(),
        counted.cpu(),
        nll,
        deviation,
        bool(probabilities) and name != "nll_loss",
    )


def record_tokens(
    arguments: tuple[Any, ...], options: Mapping[str, Any], module: str, declared: int | None = None
) -> TokensRecord | None:
    """The record of a call of `embedding`; `declared` is the padding token of the model's config."""
    given = dict(zip(("input", "weight", "padding_idx"), arguments, strict=False)) | dict(options)
    tokens, table = given["input"], given["weight"]
    if not isinstance(tokens, Tensor) or tokens.is_floating_point():
        return None
    padding = given.get("padding_idx")
    padding = declared if padding is None or padding < 0 else padding
    return TokensRecord(module, tokens.detach().cpu(), len(table), padding)


def matching_tokens(loss: LossRecord, read: Sequence[TokensRecord], offset: int) -> float | None:
    """The largest share of targets that equal the token `offset` places after their own position, over embeddings.

    None where no embedding read as many positions as there are targets, up to a few at the end of each sequence.
    """
    shares = [share for each in read if (share := _matching(loss, each.tokens, offset)) is not None]
    return max(shares, default=None)


def _matching(loss: LossRecord, tokens: Tensor, offset: int) -> float | None:
    rows = tokens.flatten(1) if tokens.dim() > 1 else tokens[None]
    sequences, length = rows.shape
    if not sequences or loss.targets.numel() % sequences:
        return None
    targets, counted = (each.view(sequences, -1) for each in (loss.targets, loss.counted))
    if not length - 3 <= targets.shape[1] <= length or targets.shape[1] < 4:
        return None
    first, end = max(0, -offset), min(targets.shape[1], length - offset)
    same = targets[:, first:end] == rows[:, first + offset : end + offset]
    kept = counted[:, first:end]
    return (same & kept).sum().item() / kept.sum().item() if kept.any() else None
