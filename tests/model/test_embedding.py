"""Embeddings: positions, adaptive tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import lamina
from lamina import UserError
from lamina.model.embedding import AdaptiveTable, ConvolutionalFrontEnd, Sinusoids, rotate
from lamina.model.sequences import Sequences
from support.padded_tokens import SMALL, TOKENS


@pytest.mark.usefixtures("float64")
def test_rotary_scores_depend_on_distance_alone() -> None:
    q, k = torch.randn(1, 1, 8), torch.randn(1, 1, 8)

    def score(at: int, other: int) -> Tensor:
        return (rotate(q, torch.tensor([at])) * rotate(k, torch.tensor([other]))).sum()

    torch.testing.assert_close(score(3, 1), score(12, 10))
    assert not torch.allclose(score(3, 1), score(3, 2))


def test_sinusoids_are_the_papers() -> None:
    sequences = Sequences([3])
    table = Sinusoids(7)(sequences.positions, sequences.longest, like=torch.zeros(1))
    for position in range(3):
        for channel in range(7):
            angle = position / 10000 ** (2 * (channel // 2) / 7)
            expected = math.cos(angle) if channel % 2 else math.sin(angle)
            assert table[position, channel].item() == pytest.approx(expected, abs=1e-6)


def test_too_long_for_learned_positions() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", positions="learned", max_length=4, **SMALL)
    with pytest.raises(UserError, match="5 tokens is longer than the 4 learned positions"):
        model(TOKENS)


@pytest.mark.usefixtures("float64")
def test_adaptive_input_looks_each_word_up_in_its_band() -> None:
    table = AdaptiveTable(20, 8, (5, 12), factor=2)
    assert [band.table.weight.shape for band in table.bands] == [(5, 8), (7, 4), (8, 2)]
    ids = torch.tensor([0, 4, 5, 11, 12, 19])
    for word, row in zip(ids.tolist(), table(ids), strict=True):
        band = table.bands[0 if word < 5 else 1 if word < 12 else 2]
        torch.testing.assert_close(row, band.projection(band.table.weight[word - band.low]))


LENGTHS = [23, 1, 8, 40]


@pytest.fixture
def front_end(float64: None) -> ConvolutionalFrontEnd:
    return ConvolutionalFrontEnd(num_bins=6, channels=8, model_dim=5)


def test_each_utterance_is_as_if_alone(front_end: ConvolutionalFrontEnd) -> None:
    frames = torch.randn(sum(LENGTHS), 6)
    found, sequences = front_end(frames, LENGTHS)
    assert sequences.counts.tolist() == [6, 1, 2, 10]
    expected = []
    for utterance in frames.split(LENGTHS):
        x = utterance.T[None]
        for convolution in front_end.convolutions:
            x = F.glu(F.conv1d(x, convolution.weight, convolution.bias, stride=2, padding=2), dim=1)
        expected.append(x[0].T)
    assert torch.allclose(found, torch.cat(expected), atol=1e-12)


def test_gradients_reach_all_frames_and_weights(front_end: ConvolutionalFrontEnd) -> None:
    frames = torch.randn(sum(LENGTHS), 6, requires_grad=True)
    front_end(frames, np.array(LENGTHS))[0].square().sum().backward()
    assert frames.grad is not None
    assert (frames.grad != 0).any(dim=1).all()
    assert all(parameter.grad is not None for parameter in front_end.parameters())


def test_wrong_shapes_are_refused(front_end: ConvolutionalFrontEnd) -> None:
    with pytest.raises(UserError, match=r"must be \(frames, 6\), not \(4, 7\)"):
        front_end(torch.zeros(4, 7), [4])
    with pytest.raises(UserError, match="add up to 3 frames, but there are 4"):
        front_end(torch.zeros(4, 6), [3])
