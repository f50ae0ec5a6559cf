"""Inputs of a model: arguments, devices and attention cells."""

from __future__ import annotations

import numpy as np
import torch

from lamina.tasks.inputs import Inputs, Losses

PAIRS = Inputs(
    {"source": torch.arange(5), "target": torch.arange(4)},
    {"source_lengths": np.array([3, 2]), "target_lengths": np.array([1, 3])},
    labels=torch.arange(4),
    count=4,
)


def test_arguments_are_tensors_and_lengths() -> None:
    assert list(PAIRS.arguments) == ["source", "target", "source_lengths", "target_lengths"]
    assert PAIRS.device == torch.device("cpu")


def test_attention_cells_are_those_of_the_grids_and_of_real_tokens() -> None:
    computed, real = PAIRS.attention_cells()
    assert real == (9 + 4) + (1 + 9) + (1 * 3 + 3 * 2)  # encoder, decoder, cross-attention
    assert computed == 2 * 3 * 3 + 2 * 3 * 3 + 2 * 3 * 3


def test_tensors_are_moved_and_lengths_stay() -> None:
    moved = PAIRS.to("meta")
    assert all(each.is_meta for each in moved.tensors.values())
    assert moved.labels is not None
    assert moved.labels.is_meta
    assert moved.weights is None
    assert moved.lengths is PAIRS.lengths
    assert moved.count == 4


def test_losses_are_sums_over_labels() -> None:
    losses = Losses(torch.tensor(3.0), torch.tensor(2.0), 4)
    assert (losses.smoothed / losses.count).item() == 0.75
