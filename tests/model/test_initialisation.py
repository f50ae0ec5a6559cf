"""Base initialisation: the variance of every matrix and table."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina
from lamina.model.initialisation import initialise_matrix
from lamina.model.sequences import Sequences
from lamina.residual.base import Matrix
from support.padded_tokens import SMALL


def test_embeddings_are_initialised_as_specified() -> None:
    model = lamina.Transformer.from_preset("iwslt", **(SMALL | {"model_dim": 64, "vocab_size": 2000}))
    table = model.tables["source"].weight
    assert not table[0].any()
    assert table[1:].std().item() == pytest.approx(64**-0.5, rel=0.02)
    ids, sequences = torch.tensor([5]), Sequences([1])
    embedded = model.source_embedding(model.tables["source"], ids, sequences)
    at_zero = torch.tensor([0.0, 1.0]).repeat(32)  # sin 0, cos 0, …
    torch.testing.assert_close(embedded[0], 8 * table[5] + at_zero)


@pytest.mark.parametrize(
    ("init", "role", "spread"),
    [
        ("xavier", "query", (2 / 128) ** 0.5 * 2**-0.5),
        ("xavier", "outer", (2 / 128) ** 0.5),
        ("xavier-normal", "key", (2 / 128) ** 0.5),
        ("fairseq", "value", (2 / 128) ** 0.5 * 2**-0.5),
        ("fairseq", "output", (2 / 128) ** 0.5),
        ("fairseq", "inner", (1 / 64) ** 0.5 / 3**0.5),
        ("normal", "gate", 0.02),
        ("theory", "query", 0.0),
        ("theory", "value", 64**-0.5),
    ],
)
def test_base_initialisations(init: str, role: str, spread: float) -> None:
    linear = nn.Linear(64, 64)
    with torch.no_grad():
        initialise_matrix(Matrix(role, linear.weight, linear.bias), init)
    assert linear.weight.std().item() == pytest.approx(spread, rel=0.05)
    is_uniform = init in ("xavier", "fairseq")
    if spread:
        assert (linear.weight.abs().max().item() < 1.8 * spread) == is_uniform
    drawn = init == "fairseq" and role != "output"  # fairseq leaves nn.Linear's biases, but for the output's
    bias = (1 / 64) ** 0.5 / 3**0.5 if drawn else 0.0
    assert linear.bias.std().item() == pytest.approx(bias, rel=0.2)
