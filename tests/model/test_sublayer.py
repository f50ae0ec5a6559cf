"""Sub-layers in a stack: keywords, roles, modules of other libraries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lamina import Stack, UserError, residual
from support.small_models import Mixer


class Scaled(nn.Module):
    def forward(self, x: Tensor, scale: float, shift: float = 0.0) -> Tensor:
        return scale * x + shift


def test_keywords_go_to_the_sublayers_that_name_them() -> None:
    x = torch.randn(3, 4)
    stack = Stack([[Scaled(), nn.Identity()]], model_dim=4, residual="t-fixup")
    torch.testing.assert_close(stack(x, scale=2.0), 2 * (x + 2 * x))
    torch.testing.assert_close(stack(x, scale=2.0, shift=1.0), 2 * (x + 2 * x + 1))
    unnamed = Stack([[Scaled(), NamesNone()]], model_dim=4, residual="t-fixup")
    torch.testing.assert_close(unnamed(x, scale=2.0), 2 * (x + 2 * x))


def test_a_keyword_nobody_names_and_one_that_is_missing() -> None:
    stack = Stack([[Scaled(), nn.Linear(4, 4)]], model_dim=4)
    with pytest.raises(UserError, match=r"unknown keyword for the sub-layers 'scael'; did you mean 'scale'"):
        stack(torch.randn(3, 4), scael=2.0)
    with pytest.raises(UserError, match=r"sub-layer 0 \(Scaled of layer 0\) needs scale"):
        stack(torch.randn(3, 4))


@pytest.mark.parametrize("name", residual.names())
def test_foreign_weights_are_left_alone_without_roles(name: str) -> None:
    layers = [[Mixer(4), Mixer(4)] for _ in range(2)]
    before = [parameter.clone() for layer in layers for module in layer for parameter in module.parameters()]
    Stack(layers, model_dim=4, residual=name)
    after = [parameter for layer in layers for module in layer for parameter in module.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_roles_bring_start_values() -> None:
    torch.manual_seed(4)
    layers = [[Mixer(64)] for _ in range(4)]
    Stack(layers, model_dim=64, residual="depth-scaled", roles={"*.inner": "inner", "*.outer": "outer"})
    spreads = [layer[0].inner.weight.std().item() for layer in layers]
    assert spreads == pytest.approx([(2 / 128) ** 0.5 * l**-0.5 for l in range(1, 5)], rel=0.05)
    assert not layers[0][0].inner.bias.any()


def test_roles_that_match_nothing_or_are_unknown() -> None:
    with pytest.raises(UserError, match=r"'\*.q_proj' matches no weight matrix; there are: 0.0.inner, 0.0.outer"):
        Stack([[Mixer(4)]], model_dim=4, roles={"*.q_proj": "query"})
    with pytest.raises(UserError, match=r"unknown role 'qeury'; did you mean 'query'"):
        Stack([[Mixer(4)]], model_dim=4, roles={"*.inner": "qeury"})


def test_a_compiled_sublayer_still_gets_the_keywords_it_names() -> None:
    stack = Stack([[torch.compile(Scaled(), backend="eager")]], model_dim=4, residual="t-fixup")
    x = torch.randn(3, 4)
    torch.testing.assert_close(stack(x, scale=2.0), 3 * x)


def test_a_module_in_several_layers_gets_start_values_once() -> None:
    torch.manual_seed(4)
    shared = Mixer(64)
    roles = {"*.inner": "inner", "*.outer": "outer"}
    Stack([[shared] for _ in range(4)], model_dim=64, residual="t-fixup", roles=roles)
    assert shared.inner.weight.std().item() == pytest.approx((2 / 128) ** 0.5 * 36**-0.25, rel=0.05)
    stack = Stack([[shared] for _ in range(4)], model_dim=64, residual="admin", roles=roles, omega="closed-form")
    with pytest.raises(UserError, match="shared with another sub-layer"):
        stack.fold()


class NamesNone(nn.Module):
    def forward(self, x: Tensor, **anything: float) -> Tensor:
        assert not anything
        return x
