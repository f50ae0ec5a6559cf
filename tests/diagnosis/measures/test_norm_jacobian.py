from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.diagnosis.measures.norm_jacobian import NormJacobian, spectral_norms
from lamina.model.stack import Stack
from lamina.residual.norm import NormOptions
from support.recorded import line, recorded, some_loss, take


def test_the_whole_jacobian_with_a_gain(float64: None) -> None:
    norm = nn.LayerNorm(7)
    nn.init.normal_(norm.weight)
    x = torch.randn(3, 7)
    jacobian = torch.func.vmap(torch.func.jacrev(norm))(x)
    assert torch.allclose(spectral_norms(norm, x, 500), torch.linalg.matrix_norm(jacobian, 2))


def test_lemma_3_is_exact(float64: None) -> None:
    layers = [[nn.Linear(32, 32)] for _ in range(3)]
    stack = Stack(layers, model_dim=32, residual="post-ln", norm=NormOptions(eps=1e-30))
    found = take(NormJacobian, recorded(stack, lambda model: some_loss(model(torch.randn(9, 32) + 2))))
    centred, plain = (line(found, role="predicted", quantity=f"√d ÷ ‖x{what}‖") for what in (" − mean", ""))
    assert line(found, stack="stack") == pytest.approx(centred, rel=1e-12)
    assert plain[0] < 0.9 * centred[0]  # an input off centre: the paper's √d/‖x‖ is too small there
