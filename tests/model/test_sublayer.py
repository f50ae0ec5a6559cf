"""Sub-layers in a stack: keywords, roles, modules of other libraries."""

from __future__ import annotations

from collections.abc import Iterable

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
    Stack(layers, model_dim=4, residual=name, init=None)
    after = [parameter for layer in layers for module in layer for parameter in module.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_matrices_with_roles_are_initialised() -> None:
    torch.manual_seed(4)
    layers = [[Mixer(64)] for _ in range(4)]
    roles = {"*.inner": "inner", "*.outer": "outer"}
    Stack(layers, model_dim=64, residual="depth-scaled", roles=roles, init="xavier")
    spreads = [layer[0].inner.weight.std().item() for layer in layers]
    assert spreads == pytest.approx([(2 / 128) ** 0.5 * l**-0.5 for l in range(1, 5)], rel=0.05)
    assert not layers[0][0].inner.bias.any()


def test_roles_that_match_nothing_or_are_unknown() -> None:
    with pytest.raises(UserError, match=r"'\*.q_proj' matches no weight matrix; there are: 0.0.inner, 0.0.outer"):
        Stack([[Mixer(4)]], model_dim=4, roles={"*.q_proj": "query"}, init=None)
    with pytest.raises(UserError, match=r"unknown role 'qeury'; did you mean 'query'"):
        Stack([[Mixer(4)]], model_dim=4, roles={"*.inner": "qeury"}, init=None)


def test_a_compiled_sublayer_still_gets_the_keywords_it_names() -> None:
    stack = Stack([[torch.compile(Scaled(), backend="eager")]], model_dim=4, residual="t-fixup")
    x = torch.randn(3, 4)
    torch.testing.assert_close(stack(x, scale=2.0), 3 * x)


def test_a_module_in_several_layers_is_initialised_once() -> None:
    torch.manual_seed(4)
    shared = Mixer(64)
    roles = {"*.inner": "inner", "*.outer": "outer"}
    Stack([[shared] for _ in range(4)], model_dim=64, residual="t-fixup", roles=roles, init="xavier")
    assert shared.inner.weight.std().item() == pytest.approx((2 / 128) ** 0.5 * 36**-0.25, rel=0.05)
    options = {"residual": "admin", "omega": "closed-form", "init": "xavier"}
    stack = Stack([[shared] for _ in range(4)], model_dim=64, roles=roles, **options)
    with pytest.raises(UserError, match="shares a matrix with another sub-layer"):
        stack.fold()


ROLES = {"*.inner": "inner", "*.outer": "outer"}


def copy_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [each.detach().clone() for each in parameters]


def test_a_matrix_with_two_patterns_is_refused_unless_they_agree() -> None:
    with pytest.raises(UserError, match=r"0\.0\.inner matches '\*\.inner' and '0\.\*', which give it different roles"):
        Stack([[Mixer(4)]], model_dim=4, roles=ROLES | {"0.*": "other"}, init=None)
    torch.manual_seed(4)
    layer = Mixer(64)
    Stack([[layer]], model_dim=64, residual="t-fixup", roles=ROLES | {"0.0.inner": "inner"}, init="xavier")
    assert layer.inner.weight.std().item() == pytest.approx((2 / 128) ** 0.5 * 9**-0.25, rel=0.05), "scaled once"


def test_a_tied_matrix_counts_once() -> None:
    layer = Mixer(64)
    layer.outer.weight = layer.inner.weight
    with pytest.raises(UserError, match="different roles"):
        Stack([[layer]], model_dim=64, roles=ROLES, init=None)
    torch.manual_seed(4)
    Stack([[layer]], model_dim=64, residual="t-fixup", roles={"*": "inner"}, init="xavier")
    assert layer.inner.weight.std().item() == pytest.approx((2 / 128) ** 0.5 * 9**-0.25, rel=0.05)


NEEDS_ROLES = ["deep-norm", "t-fixup", "fixup", "look-linear", "depth-scaled"]


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in NEEDS_ROLES), ("b2t", {"scale_init": True})])
def test_schemes_that_initialise_need_roles(name: str, options: dict[str, bool]) -> None:
    for roles in ({}, {"*.inner": "inner"}):
        chosen = options | ({"roles": roles, "init": "xavier"} if roles else {})
        with pytest.raises(UserError, match=r"sub-layer 0 .*role of 0\.0\.(inner|outer) is not known.*init=None"):
            Stack([[Mixer(4)]], model_dim=4, residual=name, **chosen)
    Stack([[nn.Identity()]], model_dim=4, residual=name, **options)


def test_an_initialisation_without_effect_is_refused() -> None:
    with pytest.raises(UserError, match=r"role of 0\.0\.inner is not known"):
        Stack([[Mixer(4)]], model_dim=4, init="xavier")
    stack = Stack([[Mixer(4)]], model_dim=4)
    with pytest.raises(UserError, match=r"role of 0\.0\.inner is not known"):
        stack.initialise("xavier")


def test_roles_do_not_redraw_weights_unasked() -> None:
    layer = Mixer(4)
    before = copy_of(layer.parameters())
    with pytest.raises(UserError, match=r"init=None keeps these weights.*init='xavier' initialises them again"):
        Stack([[layer]], model_dim=4, roles=ROLES)
    Stack([[layer]], model_dim=4, roles=ROLES, init=None)
    assert all(torch.equal(one, other) for one, other in zip(before, layer.parameters(), strict=True))
    Stack([[layer]], model_dim=4, roles=ROLES, init="xavier")
    assert not torch.equal(before[0], layer.inner.weight)


def test_other_leaves_a_weight_as_it_is() -> None:
    class WithTable(Mixer):
        def __init__(self) -> None:
            super().__init__(4)
            self.positions, self.filter = nn.Embedding(3, 4), nn.Conv1d(4, 4, 3)

    layer = WithTable()
    before = copy_of([layer.positions.weight, layer.filter.weight])
    roles = ROLES | {"*.positions": "other", "*.filter": "other"}
    Stack([[layer]], model_dim=4, residual="deep-norm", roles=roles, init="xavier")
    assert torch.equal(before[0], layer.positions.weight)
    assert torch.equal(before[1], layer.filter.weight)
    with pytest.raises(
        UserError, match=r"0\.0\.filter is no matrix, its shape is \(4, 4, 3\); give it the role 'other'"
    ):
        Stack([[layer]], model_dim=4, roles=roles | {"*.filter": "inner"}, init=None)
    with pytest.raises(UserError, match="unknown role 'embedding'"):
        Stack([[layer]], model_dim=4, roles=roles | {"*.positions": "embedding"}, init=None)


class Fused(nn.Module):
    """Self-attention of torch, whose query, key and value are one matrix, without softmax to fold exactly."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x)


FUSED = {"*.in_proj_weight": ("query", "key", "value"), "*.out_proj": "output"}


def test_the_parts_of_a_fused_matrix_have_roles_of_their_own() -> None:
    torch.manual_seed(4)
    layer = Fused(64)
    nn.init.ones_(layer.attention.in_proj_bias)
    Stack([[layer]], model_dim=64, residual="deep-norm", roles=FUSED, init="xavier")
    spreads = [part.std().item() for part in layer.attention.in_proj_weight.chunk(3)]
    gain = 8**-0.25
    assert spreads == pytest.approx([(2 / 128) ** 0.5 * each for each in (1, 1, gain)], rel=0.05)
    assert not layer.attention.in_proj_bias.any()
    sized = FUSED | {"*.in_proj_weight": {"query": 64, "key": 96, "value": 32}}
    entries = Stack([[layer]], model_dim=64, roles=sized, init=None).entries
    assert [matrix.weight.shape[0] for matrix in entries[0].matrices] == [64, 96, 32, 64]
    with pytest.raises(UserError, match="192 output channels, but its parts have 100"):
        Stack([[layer]], model_dim=64, roles=FUSED | {"*.in_proj_weight": {"query": 64, "key": 36}}, init=None)
    with pytest.raises(UserError, match=r"parts may differ in size; give the output channels of each: \{'query': …"):
        Stack([[layer]], model_dim=64, roles=FUSED | {"*.in_proj_weight": ("query", "key")}, init=None)


class Conv1D(nn.Module):
    """As in transformers: the weight is (inputs, outputs)."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(6, 6), Conv1D(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.c_fc(x).relu())


@pytest.mark.parametrize("name", ["admin", "deep-norm"])
@pytest.mark.parametrize("kind", ["fused", "transposed", "tied patterns"])
@pytest.mark.usefixtures("float64")
def test_fused_and_transposed_matrices_fold(name: str, kind: str) -> None:
    make, roles = {
        "fused": (lambda: Fused(6), FUSED),
        "transposed": (Transposed, {"*.c_fc": "inner", "*.c_proj": "outer"}),
        "tied patterns": (lambda: Mixer(6), ROLES | {"0.*.inner": "inner", "1.*.outer": "outer"}),
    }[kind]
    stack = Stack([[make()], [make()]], model_dim=6, residual=name, roles=roles, init=None)
    x = torch.randn(5, 6)
    stack.calibrate(x)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    torch.testing.assert_close(stack(x), stack.fold()(x), atol=1e-10, rtol=1e-10)


def test_a_transposed_matrix_is_recognised_by_its_bias_or_refused() -> None:
    class Own(nn.Module):
        def __init__(self, bias: bool) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 8))
            self.bias = nn.Parameter(torch.randn(8)) if bias else None

    class Sub(nn.Module):
        def __init__(self, bias: bool) -> None:
            super().__init__()
            self.inner, self.outer = Own(bias), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(x @ self.inner.weight)

    entries = Stack([[Sub(bias=True)]], model_dim=4, roles=ROLES, init=None).entries
    assert entries[0].matrices[0].weight.shape == (8, 4)
    with pytest.raises(UserError, match=r"role 'inner' of shape \(4, 8\).*has 4 input channels; .*\(inputs, outputs\)"):
        Stack([[Sub(bias=False)]], model_dim=4, roles=ROLES, init=None)


@pytest.mark.usefixtures("float64")
def test_matrices_without_a_role_and_partly_shared_ones_are_not_folded() -> None:
    options = {"model_dim": 6, "residual": "admin", "omega": "closed-form", "init": None}
    with pytest.raises(UserError, match=r"sub-layer 0 .*role of 0\.0\.c_proj is not known; give its roles"):
        Stack([[Transposed()]], roles={"*.c_fc": "inner"}, **options).fold()

    one, other = Fused(6), Transposed()
    gated = nn.ModuleList([Transposed(), Transposed()])
    gated[1].c_fc.weight = gated[0].c_fc.weight
    stack = Stack(
        [[one, gated[0]], [other, gated[1]]], roles=FUSED | {"*.c_fc": "inner", "*.c_proj": "outer"}, **options
    )
    with pytest.raises(UserError, match=r"sub-layer 3 .*shares a matrix"):
        stack.fold()


class NamesNone(nn.Module):
    def forward(self, x: Tensor, **anything: float) -> Tensor:
        assert not anything
        return x
