"""The feed-forward sub-layer against its formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from lamina.model.feed_forward import Activation, FeedForward, LinearFeedForward

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("bias", [False, True])
def test_the_formula(activation: Activation, bias: bool) -> None:
    layer, x = FeedForward(6, 10, activation=activation, bias=bias), torch.randn(5, 6)
    inner = layer.inner(x)
    if activation == "swiglu":
        assert layer.gate is not None
        active = F.silu(layer.gate(x)) * inner
    else:
        active = {"relu": F.relu, "gelu": F.gelu}[activation](inner)
    torch.testing.assert_close(layer(x), F.linear(active, layer.outer.weight, layer.outer.bias))
    assert (layer.outer.bias is not None) == bias


def test_a_linear_one_is_a_single_matrix_that_reads_and_writes() -> None:
    layer, x = LinearFeedForward(6), torch.randn(5, 6)
    torch.testing.assert_close(layer(x), x @ layer.outer.weight.T + layer.outer.bias)
    (matrix,) = layer.matrices()
    assert (matrix.role, matrix.reads_stream, matrix.writes_branch) == ("outer", True, True)


def test_roles_of_the_matrices() -> None:
    found = {matrix.role: matrix for matrix in FeedForward(6, 10, activation="swiglu").matrices()}
    assert list(found) == ["inner", "gate", "outer"]
    assert [matrix.reads_stream for matrix in found.values()] == [True, True, False]
    assert [matrix.writes_branch for matrix in found.values()] == [False, False, True]


def test_dropout_is_between_the_matrices_in_training_only() -> None:
    layer, x = FeedForward(6, 10, dropout=0.5), torch.randn(5, 6)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
