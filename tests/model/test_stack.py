"""The stack around other people's sub-layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina import Stack, UserError
from support.small_models import SOURCE, TARGET, small_model


class MeanOverPositions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0)


def test_a_tuple_is_an_error_that_names_the_sublayer() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, None]:
            return x, None

    stack = Stack([[nn.Linear(4, 4), nn.Linear(4, 4)], [nn.Linear(4, 4), Pair()]], model_dim=4)
    with pytest.raises(UserError, match=r"sub-layer 3 \(Pair of layer 1\) returned a tuple"):
        stack(torch.randn(3, 4))


@pytest.mark.parametrize("wrong", [nn.Linear(6, 1), nn.Linear(6, 5), nn.Flatten(0), MeanOverPositions()])
def test_a_branch_of_another_shape_is_an_error_that_names_the_sublayer(wrong: nn.Module) -> None:
    stack = Stack([[nn.Linear(6, 6), wrong]], model_dim=6)
    with pytest.raises(UserError, match=r"sub-layer 1 .* a branch must keep the shape"):
        stack(torch.randn(3, 6))


def test_foreign_names_do_not_clash_with_ours() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slot = nn.Linear(4, 4)

        def matrices(self, size: int) -> int:
            return size

        def forward(self, x: Tensor, observe: float, state: float, debug: float) -> Tensor:
            return self.slot(x) * observe * state * debug

    stack = Stack([[Named()]], model_dim=4, residual="fixup", checkpoint_layers=True)
    assert isinstance(stack.layers[0].sublayers[0].slot, nn.Linear)
    stack(torch.randn(3, 4), observe=1.0, state=2.0, debug=3.0).sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "xaver"}, "init: unknown value 'xaver'; did you mean 'xavier'"),
        ({"part_of": "encodr"}, "part_of: unknown value 'encodr'; did you mean 'encoder'"),
        ({"part_of": "encoder"}, "give other_num_layers"),
        ({"dropout": float("nan")}, "dropout"),
        ({"dropout": 1.0}, "dropout: .*less than 1"),
        ({"model_dim": 0}, "model_dim: .*greater than or equal to 1"),
        ({"residual": None}, "residual: .*string"),
        ({"residual": "resi-dual", "dual_scale": True}, "dual_scale is a number or a word, not true"),
        ({"residual": "resi-dual", "dual_scale": float("inf")}, "dual_scale: .*finite"),
    ],
)
def test_what_a_stack_takes_is_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Stack([[nn.Linear(4, 4)]], **({"model_dim": 4} | options))


@pytest.mark.parametrize("layers", [[], [[]], [[nn.Linear(4, 4)], []], [nn.Linear(4, 4)]])
def test_an_empty_stack(layers: list[list[nn.Module]]) -> None:
    with pytest.raises(UserError, match="at least one layer"):
        Stack(layers, model_dim=4)


def test_bad_names_and_options_name_the_nearest() -> None:
    layers = [[nn.Linear(4, 4)]]
    with pytest.raises(UserError, match=r"unknown residual scheme 'resdual'; did you mean 'resi-dual'"):
        Stack(layers, model_dim=4, residual="resdual")
    with pytest.raises(
        UserError, match=r"'resi-dual': dual_scal: unknown option 'dual_scal'; did you mean 'dual_scale'"
    ):
        Stack(layers, model_dim=4, residual="resi-dual", dual_scal=2)
    with pytest.raises(UserError, match=r"'resi-dual': dual_scale: .*greater than 0 \(given: -1\)"):
        Stack(layers, model_dim=4, residual="resi-dual", dual_scale=-1)
    with pytest.raises(UserError, match=r"'pre-ln': omega: unknown option 'omega'"):
        Stack(layers, model_dim=4, residual="pre-ln", omega="paper")
    with pytest.raises(UserError, match=r"norm: kind: unknown value 'lyer'; did you mean 'layer'"):
        Stack(layers, model_dim=4, norm="lyer")
    with pytest.raises(UserError, match="switch_layer is 3, but the stack has only 1"):
        Stack(layers, model_dim=4, residual="mix-ln", switch_layer=3)


def test_a_wrong_width() -> None:
    with pytest.raises(UserError, match="8 wide, but its input has 4 channels"):
        Stack([[nn.Linear(8, 8)]], model_dim=8)(torch.randn(3, 4))


def test_dropout_is_off_by_default_and_on_branches_when_asked() -> None:
    x = torch.randn(50, 8)
    quiet = Stack([[nn.Identity()]], model_dim=8, residual="t-fixup")
    assert torch.equal(quiet(x), 2 * x)
    noisy = Stack([[nn.Identity()]], model_dim=8, residual="t-fixup", dropout=0.5)
    values = (noisy(x) / x).round().unique().tolist()
    assert values == [1.0, 3.0]
    assert torch.equal(noisy.eval()(x), 2 * x)


def test_encoder_and_decoder_may_differ() -> None:
    model = small_model(("post-ln", "pre-ln"))
    assert (model.encoder.residual.name, model.decoder.residual.name) == ("post-ln", "pre-ln")
    assert model(SOURCE, TARGET).isfinite().all()
    options = ({"dual_scale": 0.5}, {"switch_layer": 1})
    model = small_model(("resi-dual", "mix-ln"), residual_options=options)
    assert model.encoder.residual.options.dual_scale == 0.5
    assert model.decoder.residual.num_post == 1


@pytest.mark.parametrize("name", ["pre-ln", "deep-norm", "admin", "b2t", "resi-dual"])
def test_a_thousand_layers(name: str) -> None:
    sizes = {"kind": "decoder", "model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "vocab_size": 50}
    model = lamina.Transformer.from_preset("iwslt", residual=name, num_layers=1000, dropout=0.0, **sizes)
    tokens = torch.randint(1, 50, (2, 6))
    model.calibrate(tokens)
    loss = model(tokens, labels=tokens.roll(-1, 1)).smoothed.mean()
    loss.backward()
    assert loss.isfinite()
    gradients = [parameter.grad for parameter in model.stack.layers[0].parameters()]
    assert all(gradient.isfinite().all() for gradient in gradients)
    if name in ("pre-ln", "resi-dual"):
        assert gradients[0].abs().max() > 1e-8
