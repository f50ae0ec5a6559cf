"""The adaptive head against torch's nn.AdaptiveLogSoftmaxWithLoss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lamina.model.embedding import AdaptiveTable
from lamina.model.heads import AdaptiveHead
from support.twins import Twins, assert_close

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("float64")]
WORDS, DIM, CUTOFFS, FACTOR = 50, 16, (8, 20), 2


def heads() -> Twins:
    """Our first band passes a matrix on the way to its table, theirs does not: that matrix is made the identity."""
    table, head = AdaptiveTable(WORDS, DIM, CUTOFFS, FACTOR), AdaptiveHead(DIM, len(CUTOFFS) + 1)
    ours = nn.ModuleDict({"table": table, "head": head})
    theirs = nn.AdaptiveLogSoftmaxWithLoss(DIM, WORDS, list(CUTOFFS), div_value=FACTOR)
    shortlist, *rest = table.bands
    nn.init.eye_(shortlist.projection.weight)
    shortlist.projection.requires_grad_(False)
    twins = Twins(ours, theirs)
    twins.pair(shortlist.table.weight, theirs.head.weight, lambda joint: joint[: CUTOFFS[0]])
    twins.pair(head.band_scores.weight, theirs.head.weight, lambda joint: joint[CUTOFFS[0] :])
    for band, (narrowing, scores) in zip(rest, theirs.tail, strict=True):
        twins.pair(band.projection.weight, narrowing.weight, lambda weight: weight.T)
        twins.pair(band.table.weight, scores.weight)
    return twins


def test_log_probabilities_and_losses() -> None:
    twins = heads()
    twins.equalise()
    ours: Any = twins.ours
    hidden, targets = torch.randn(60, DIM), torch.arange(60) % WORDS
    twins.assert_agree(ours.head(hidden, ours.table), twins.theirs.log_prob(hidden))
    twins.assert_agree(-ours.head.losses(hidden, ours.table, targets).nll, twins.theirs(hidden, targets).output)
    assert_close(ours.head(hidden, ours.table).exp().sum(-1), torch.ones(60), 1e-12)
