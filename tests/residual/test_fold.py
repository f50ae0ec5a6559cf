"""Folding: a plain post-LN model with the same outputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina import UserError, residual
from lamina.model.models import EncoderDecoder
from lamina.model.stack import Stack
from support.small_models import SOURCE, TARGET, Mixer, small_model, small_stack

FOLDING = [scheme.name for scheme in residual.schemes() if scheme.folds]


def trained(name: str, dtype: torch.dtype = torch.float64, **changes: object) -> EncoderDecoder:
    """A model in which every parameter differs from its initial value."""
    model = small_model(name, 4, **changes).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_outputs_stay_in_both_precisions(name: str, norm: str) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = trained(name, dtype, norm={"kind": norm})
        plain = model.fold()
        assert next(plain.parameters()).dtype == dtype
        before, after = model(SOURCE, TARGET), plain(SOURCE, TARGET)
        assert (before - after).abs().max() < tolerance * max(1.0, before.abs().max().item())


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.usefixtures("float64")
def test_encoder_and_cross_attention_stay(name: str) -> None:
    model = trained(name, activation="swiglu", num_kv_heads=1)
    plain = model.fold()
    torch.testing.assert_close(model.encode(SOURCE)[0], plain.encode(SOURCE)[0], atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(model(SOURCE, TARGET), plain(SOURCE, TARGET), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.usefixtures("float64")
def test_the_folded_model_is_plain_and_can_be_rebuilt_from_its_options(name: str) -> None:
    plain = trained(name).fold()
    assert plain.options.residual == ("post-ln", "post-ln")
    assert not any("omega" in key for key in plain.state_dict())
    rebuilt = EncoderDecoder(plain.options)
    rebuilt.load_state_dict(plain.state_dict())
    torch.testing.assert_close(rebuilt.eval()(SOURCE, TARGET), plain(SOURCE, TARGET))


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.usefixtures("float64")
def test_folding_leaves_the_original_alone(name: str) -> None:
    model = trained(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.fold()
    for key, value in before.items():
        assert torch.equal(model.state_dict()[key], value), key


@pytest.mark.usefixtures("float64")
def test_closed_form_scale_of_the_stack_input_is_kept() -> None:
    model = trained("admin", residual_options={"omega": "closed-form"})
    plain = model.fold()
    torch.testing.assert_close(model(SOURCE, TARGET), plain(SOURCE, TARGET), atol=1e-10, rtol=1e-10)
    assert not torch.allclose(plain.encoder.residual.input_scale, torch.ones(16))


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.usefixtures("float64")
def test_foreign_sublayers_fold_when_their_roles_are_known(name: str) -> None:
    x = torch.randn(5, 6)
    layers = [[Mixer(6), nn.Linear(6, 6)] for _ in range(2)]
    roles = {"*.inner": "inner", "*.outer": "outer", "?.[13]": "outer"}
    stack = Stack(layers, model_dim=6, residual=name, roles=roles, init="xavier")
    stack.calibrate(x)
    torch.testing.assert_close(stack(x), stack.fold()(x), atol=1e-10, rtol=1e-10)

    unknown = small_stack(name, 2)
    unknown.calibrate(x)
    with pytest.raises(UserError, match=r"sub-layer 0 .*roles="):
        unknown.fold()


def test_a_scheme_that_cannot_fold_says_which_can() -> None:
    with pytest.raises(UserError, match=r"pre-ln cannot be folded.*admin, deep-norm"):
        small_model("pre-ln").fold()


def test_a_zero_in_omega_is_named() -> None:
    model = small_model("admin")
    with torch.no_grad():
        model.decoder.layers[1].sites[2].omega[3] = 0.0
    with pytest.raises(UserError, match=r"ω of sub-layer 5 \(feed-forward of layer 1\) holds a zero"):
        model.fold()


def test_a_plain_stack_folds_to_itself_beside_one_that_is_not() -> None:
    model = trained(("admin", "post-ln"))
    plain = model.fold()
    assert plain.options.residual == ("post-ln", "post-ln")
    torch.testing.assert_close(model(SOURCE, TARGET), plain(SOURCE, TARGET), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", FOLDING)
def test_folding_draws_no_random_numbers(name: str) -> None:
    model = trained(name)
    state = torch.random.get_rng_state()
    model.fold()
    assert torch.equal(torch.random.get_rng_state(), state)


class ReadsMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return self.o((self.q(x) @ self.k(memory).T).softmax(-1) @ self.v(memory))


@pytest.mark.parametrize("name", FOLDING)
@pytest.mark.usefixtures("float64")
def test_foreign_cross_attention_folds(name: str) -> None:
    roles = {"*.q": "query", "*.k": "key", "*.v": "value", "*.o": "output"}
    sizes = {"model_dim": 6, "part_of": "decoder", "other_num_layers": 2}
    stack = Stack([[ReadsMemory()] for _ in range(3)], residual=name, roles=roles, init="xavier", **sizes)
    x, memory = torch.randn(4, 6), torch.randn(5, 6)
    stack.calibrate(x, memory=memory)
    torch.testing.assert_close(stack(x, memory=memory), stack.fold()(x, memory=memory), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("name", "known"), [("deep-norm", "inner"), ("admin", "outer")])
@pytest.mark.usefixtures("float64")
def test_partial_roles_are_refused_rather_than_folded_wrongly(name: str, known: str) -> None:
    stack = Stack([[Mixer(6)] for _ in range(2)], model_dim=6, residual=name, roles={f"*.{known}": known}, init=None)
    stack.calibrate(torch.randn(5, 6))
    with pytest.raises(UserError, match="cannot be folded"):
        stack.fold()
