"""Heads: losses, adaptive softmax, masked words and classes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

import lamina
from lamina import UserError
from lamina.model.embedding import AdaptiveTable
from lamina.model.heads import AdaptiveHead, CtcHead
from lamina.model.sequences import Sequences
from support.padded_tokens import REAL, SMALL, TOKENS


def test_losses_equal_the_cross_entropy_of_the_scores() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", **SMALL).eval()
    labels = torch.where(REAL, TOKENS + 1, 0)
    losses = model(TOKENS, labels=labels, smoothing=0.1)
    scores, targets = model(TOKENS)[REAL], labels[REAL]
    for actual, smoothing in ((losses.smoothed, 0.1), (losses.nll, 0.0)):
        expected = nn.functional.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="none")
        torch.testing.assert_close(actual, expected)


def test_masked_word_head_is_applied_to_the_given_positions_only() -> None:
    bert = lamina.Transformer.from_preset("bert-base", **SMALL).eval()
    segments = torch.where(torch.arange(5) < 2, 0, 1).expand(3, -1) * REAL
    everything = bert(TOKENS, segments=segments)
    only = torch.tensor([0, 4, 9])
    torch.testing.assert_close(bert(TOKENS, segments=segments, only=only), everything[REAL][only])
    labels = torch.tensor([5, 6, 7])
    expected = nn.functional.cross_entropy(everything[REAL][only], labels, reduction="none")
    torch.testing.assert_close(bert(TOKENS, segments=segments, only=only, labels=labels).smoothed, expected)
    assert not torch.allclose(bert(TOKENS), everything), "segments take part"


def test_class_head_reads_the_first_token_of_each_sequence() -> None:
    model = lamina.Transformer.from_preset("bert-base", head="classes", num_classes=3, **SMALL).eval()
    scores = model(TOKENS)
    assert scores.shape == (3, 3)
    hidden, sequences = model.hidden(TOKENS)
    assert sequences.first.tolist() == [0, 5, 8]
    torch.testing.assert_close(scores, model.head(hidden[[0, 5, 8]]))


@pytest.mark.usefixtures("float64")
def test_adaptive_softmax_equals_torchs_with_the_same_weights() -> None:
    table, head = AdaptiveTable(20, 8, (5, 12), factor=2), AdaptiveHead(8, num_bands=3)
    torchs = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0)
    first, *rest = table.bands
    with torch.no_grad():
        torchs.head.weight[:5] = first.table.weight @ first.projection.weight.T
        torchs.head.weight[5:] = head.band_scores.weight
        for tail, band in zip(torchs.tail, rest, strict=True):
            tail[0].weight.copy_(band.projection.weight.T)
            tail[1].weight.copy_(band.table.weight)
    hidden, targets = torch.randn(30, 8), torch.arange(30) % 20
    torch.testing.assert_close(head(hidden, table), torchs.log_prob(hidden))
    torch.testing.assert_close(head.losses(hidden, table, targets).nll, -torchs(hidden, targets).output)
    torch.testing.assert_close(head(hidden, table).exp().sum(1), torch.ones(30))
    with pytest.raises(UserError, match="label smoothing"):
        head.losses(hidden, table, targets, smoothing=0.1)


@pytest.mark.parametrize("adaptive", [(), (6, 14)])
def test_losses_are_computed_in_single_precision_under_autocast(adaptive: tuple[int, ...]) -> None:
    model = lamina.Transformer.from_preset("lm", **(SMALL | {"vocab_size": 40, "adaptive_cutoffs": adaptive})).eval()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        losses = model(TOKENS, labels=TOKENS).nll
        scores = model(TOKENS)[REAL].float()
    assert losses.dtype == torch.float32
    if not adaptive:
        expected = nn.functional.cross_entropy(scores, TOKENS[REAL], reduction="none")
        torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)


def test_the_ctc_loss_is_the_sum_over_all_alignments(float64: None) -> None:
    """Against the definition: every path of labels and blanks that collapses to the target, enumerated."""
    torch.manual_seed(1)
    frames, vocabulary, target = 4, 3, (1, 2)
    head = CtcHead(5, vocabulary)
    hidden = torch.randn(frames + 2, 5)  # a second utterance of two frames, too short for its target
    log_probabilities = head(hidden[:frames])
    total = 0.0
    for path in itertools.product(range(vocabulary), repeat=frames):
        collapsed = [label for label, before in zip(path, (0, *path), strict=False) if label != before and label]
        if tuple(collapsed) == target:
            total += math.exp(sum(log_probabilities[time, label].item() for time, label in enumerate(path)))
    eos = 2
    labels, sequences = torch.tensor([*target, eos, 1, 1, 1, eos]), Sequences([3, 4])
    losses = head.losses(hidden, Sequences([frames, 2]), labels, sequences)
    assert abs(float(losses[0]) + math.log(total)) < 1e-10
    assert float(losses[1]) == 0  # no alignment fits


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_bias_is_added_to_the_scores_of_words(kind: str) -> None:
    torch.manual_seed(0)
    plain = lamina.Transformer.from_preset("base", **SMALL, kind=kind).eval()
    biased = lamina.Transformer.from_preset("base", **SMALL, kind=kind, output_bias=True).eval()
    biased.load_state_dict(plain.state_dict(), strict=False)
    bias = torch.randn(biased.head.bias.shape)
    with torch.no_grad():
        biased.head.bias.copy_(bias)
    given = (TOKENS, TOKENS) if kind == "encoder-decoder" else (TOKENS,)
    difference = biased(*given) - plain(*given)
    torch.testing.assert_close(difference[REAL], bias.expand_as(difference[REAL]), atol=1e-5, rtol=1e-5)


def test_a_bias_needs_ordinary_word_scores() -> None:
    with pytest.raises(UserError, match="output_bias is for a head 'words'"):
        lamina.Transformer.from_preset("bert-base", output_bias=True)
