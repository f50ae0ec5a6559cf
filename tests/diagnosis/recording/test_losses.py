"""Losses over classes and the tokens that a model read."""

from __future__ import annotations

from math import log

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from lamina.diagnosis.recording.losses import entropy, matching_tokens, record_loss, record_tokens


def test_the_loss_of_the_targets_that_count() -> None:
    scores, targets = torch.randn(2, 7, 3), torch.tensor([[0, 6, -100], [1, 1, 2]])  # (sequences, classes, length)
    found = record_loss("cross_entropy", (scores, targets), {"ignore_index": -100}, "head")
    assert found is not None
    assert found.classes == 7
    assert found.nll == pytest.approx(F.cross_entropy(scores, targets).item(), rel=1e-5)
    assert found.counted.tolist() == [True, True, False, True, True, True]
    assert found.unigram == pytest.approx(-(2 * 0.2 * log(0.2) + 0.2 * log(0.2) + 0.4 * log(0.4)))
    rows = scores.movedim(1, -1).flatten(0, 1)[found.counted]
    assert found.deviation == pytest.approx(sum(row.std().item() for row in rows) / 5, rel=1e-5)


@pytest.mark.parametrize("twice", [False, True])
def test_probabilities_are_told_from_logits(twice: bool) -> None:
    scores = torch.randn(4, 7).softmax(-1) if twice else torch.randn(4, 7)
    found = record_loss("cross_entropy", (scores, torch.arange(4)), {}, "")
    assert found is not None
    assert found.are_probabilities == twice


def test_soft_targets_are_no_classes() -> None:
    assert record_loss("cross_entropy", (torch.randn(4, 7), torch.rand(4, 7)), {}, "") is None


@pytest.mark.parametrize("offset", [-1, 0, 1, 2])
@pytest.mark.parametrize("dropped", [0, 1])
def test_targets_are_found_among_the_tokens(offset: int, dropped: int) -> None:
    """Targets may lack the last position of each sequence, as logits[:, :-1] does."""
    tokens = torch.randperm(40).view(2, 20)
    targets = tokens.roll(-offset, 1)[:, : 20 - dropped].flatten()
    loss = record_loss("nll_loss", (torch.randn(len(targets), 40), targets), {}, "")
    read = record_tokens((tokens, torch.zeros(40, 3), 0), {}, "embedding")
    assert loss is not None
    assert read is not None
    assert (read.rows, read.padding) == (40, 0)
    shares = {each: matching_tokens(loss, [read], each) for each in (-1, 0, 1, 2)}
    assert {each for each, share in shares.items() if share is not None and share > 0.9} == {offset}


def test_other_numbers_of_targets_cannot_be_compared() -> None:
    loss = record_loss("nll_loss", (torch.randn(2, 40), torch.arange(2)), {}, "")
    read = record_tokens((torch.arange(40).view(2, 20), torch.zeros(40, 3)), {}, "")
    assert loss is not None
    assert read is not None
    assert matching_tokens(loss, [read], 0) is None


def test_the_entropy_of_tokens() -> None:
    assert entropy(torch.tensor([1, 1, 2, 2])) == pytest.approx(log(2))
