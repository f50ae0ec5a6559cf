"""Admin's ω: three ways to set it, when it is missing, when it is saved."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina import UserError
from lamina.model.stack import Stack
from support.small_models import SMALL, SOURCE, TARGET, small_model, small_stack

pytestmark = pytest.mark.usefixtures("float64")


def omegas(stack: Stack) -> list[Tensor]:
    return [site.omega.detach() for layer in stack.layers for site in layer.sites]


def profiled_by_hand(stack: Stack, x: Tensor) -> list[float]:
    """ω ← s, used at once; s ← √(Var[ω⊙x] + Var[f])."""
    s, found = 1.0, []
    for layer in stack.layers:
        for f in layer.sublayers:
            found.append(s)
            branch = f(x)
            total = s * x + branch
            s = math.sqrt((s * x).var(correction=0).item() + branch.var(correction=0).item())
            x = nn.functional.layer_norm(total, (x.shape[-1],))
    return found


def test_profile_is_the_authors_procedure() -> None:
    stack, x = small_stack("admin", 4), torch.randn(50, 6)
    expected = profiled_by_hand(stack, x)
    stack.calibrate(x)
    for omega, value in zip(omegas(stack), expected, strict=True):
        assert omega.shape == (6,)
        torch.testing.assert_close(omega, torch.full((6,), value))
    assert expected[0] == 1.0
    assert expected == sorted(expected)


def test_paper_takes_the_variances_with_every_omega_at_one() -> None:
    stack, x = small_stack("admin", 3, omega="paper"), torch.randn(50, 6)
    variances, y = [], x
    for layer in stack.layers:
        for f in layer.sublayers:
            variances.append(f(y).var(correction=0).item())
            y = nn.functional.layer_norm(y + f(y), (6,))
    stack.calibrate(x)
    expected = [1.0, *(math.sqrt(sum(variances[:i])) for i in range(1, len(variances)))]
    assert [omega[0].item() for omega in omegas(stack)] == pytest.approx(expected)


def test_closed_form_needs_no_data() -> None:
    stack = small_stack("admin", 4, omega="closed-form")
    n = 8
    assert [omega[0].item() for omega in omegas(stack)] == pytest.approx([math.sqrt((n + 1) / math.log(n + 1) - 1)] * n)
    stack(torch.randn(3, 6))


def test_use_before_omega_is_set_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"ω is not set.*calibrate.*closed-form"):
        small_stack("admin", 2)(torch.randn(3, 6))


def test_the_flag_is_saved_with_the_weights() -> None:
    stack, x = small_stack("admin", 2), torch.randn(9, 6)
    stack.calibrate(x)
    fresh = small_stack("admin", 2)
    fresh.load_state_dict(stack.state_dict())
    torch.testing.assert_close(fresh(x), stack(x))

    uncalibrated = small_stack("admin", 2)
    fresh.load_state_dict(uncalibrated.state_dict())
    with pytest.raises(UserError, match="not set"):
        fresh(x)


def test_padding_is_left_out() -> None:
    x = torch.randn(4, 7, 6)
    mask = torch.arange(7) < torch.tensor([7, 3, 5, 1])[:, None]
    layers = [[nn.Linear(6, 6), nn.Linear(6, 6)] for _ in range(2)]
    padded, packed = (Stack(layers, model_dim=6, residual="admin") for _ in range(2))
    padded.calibrate(x * mask[..., None] + 1e3 * ~mask[..., None], mask)
    packed.calibrate(x[mask])
    for one, other in zip(omegas(padded), omegas(packed), strict=True):
        torch.testing.assert_close(one, other)


def test_profiling_is_in_training_mode_and_restores_the_state() -> None:
    sizes = SMALL | {"num_layers": 2, "dropout": 0.3}
    model = lamina.Transformer.from_preset("iwslt", residual="admin", **sizes).eval()
    set_by_it = ("omega", "calibrated")
    before = {key: value.clone() for key, value in model.state_dict().items() if not key.endswith(set_by_it)}
    state = torch.random.get_rng_state()
    model.calibrate(SOURCE, TARGET)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not model.training
    for key, value in before.items():
        assert torch.equal(model.state_dict()[key], value), key

    without = lamina.Transformer.from_preset("iwslt", residual="admin", num_layers=2, **SMALL)
    without.load_state_dict(before, strict=False)
    without.calibrate(SOURCE, TARGET)
    assert not torch.equal(omegas(without.encoder)[-1], omegas(model.encoder)[-1]), "dropout takes part"


def test_at_most_8192_tokens_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lamina.Transformer.from_preset("iwslt", residual="admin", num_layers=1, **SMALL)
    seen = []
    forward = type(model.encoder.layers[0].sublayers[0]).forward

    def spy(self: nn.Module, x: Tensor, *given: object, **context: object) -> Tensor:
        seen.append(len(x))
        return forward(self, x, *given, **context)

    monkeypatch.setattr(type(model.encoder.layers[0].sublayers[0]), "forward", spy)
    source = torch.randint(3, 40, (300 * 40,))
    target = torch.randint(3, 40, (300 * 30,))
    model.calibrate(source, target, source_lengths=[40] * 300, target_lengths=[30] * 300)
    assert seen == [204 * 40, 204 * 30]


def test_rescaled_initialisation_gives_the_same_outputs_without_omega() -> None:
    torch.manual_seed(2)
    learned = small_model("admin", 3)
    torch.manual_seed(2)
    rescaled = small_model("admin", 3, residual_options={"omega_form": "rescaled"})
    torch.testing.assert_close(rescaled.eval()(SOURCE, TARGET), learned.eval()(SOURCE, TARGET))
    assert not any("omega" in key for key, _ in rescaled.named_parameters())
    assert all((omega == 1).all() for omega in omegas(rescaled.encoder))


@pytest.mark.parametrize("omega", ["profile", "closed-form"])
def test_fixed_omega_starts_as_a_parameter_does_and_is_not_trained(omega: str) -> None:
    torch.manual_seed(2)
    learned = small_model("admin", 3, residual_options={"omega": omega})
    torch.manual_seed(2)
    fixed = small_model("admin", 3, residual_options={"omega": omega, "omega_form": "fixed"})
    torch.testing.assert_close(fixed.eval()(SOURCE, TARGET), learned.eval()(SOURCE, TARGET))
    assert not any("omega" in key for key, _ in fixed.named_parameters())
    assert any("omega" in key for key in fixed.state_dict())
    assert not list(fixed.undecayed_parameters())
    torch.testing.assert_close(fixed.fold()(SOURCE, TARGET), fixed(SOURCE, TARGET), atol=1e-10, rtol=1e-10)


def test_omega_is_kept_out_of_weight_decay_unless_asked() -> None:
    kept = list(small_model("admin").undecayed_parameters())
    assert len(kept) == 2 * 2 + 2 * 3
    assert not list(small_model("admin", residual_options={"omega_decay": True}).undecayed_parameters())
    assert not list(small_model("post-ln").undecayed_parameters())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_batch_leaves_omega_unset(bad: float) -> None:
    stack = small_stack("admin", 2)
    with pytest.raises(UserError, match="came out as nan"):
        stack.calibrate(torch.full((9, 6), bad))
    with pytest.raises(UserError, match="not set"):
        stack(torch.randn(3, 6))


def test_a_pass_that_breaks_leaves_everything_as_it_was() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("broken")

    stack = Stack([[nn.Linear(6, 6), Broken()]], model_dim=6, residual="admin").eval()
    with pytest.raises(RuntimeError, match="broken"):
        stack.calibrate(torch.randn(3, 6))
    assert not stack.training
    assert all((omega == 1).all() for omega in omegas(stack))
    with pytest.raises(UserError, match="not set"):
        stack(torch.randn(3, 6))
    with pytest.raises(UserError, match="not set"):
        stack.fold()


def test_calibrating_again_is_refused_until_the_weights_are_initialised() -> None:
    x = torch.randn(20, 6)
    stack = small_stack("admin", 3)
    stack.calibrate(x)
    with torch.no_grad():
        for omega in omegas(stack):
            omega.add_(0.1 * torch.randn(6))
    trained = [omega.clone() for omega in omegas(stack)]
    with pytest.raises(UserError, match=r"ω is set already.*overwrite it.*initialise\(\)"):
        stack.calibrate(2 * x)
    assert all(torch.equal(one, other) for one, other in zip(trained, omegas(stack), strict=True))

    again = small_model("admin")
    first = [omega.clone() for omega in omegas(again.encoder)]
    again.initialise()
    with pytest.raises(UserError, match="not set"):
        again(SOURCE, TARGET)
    again.calibrate(SOURCE, TARGET)
    assert not torch.equal(first[-1], omegas(again.encoder)[-1])


def test_rescaling_twice_is_refused() -> None:
    model = small_model("admin", residual_options={"omega_form": "rescaled"})
    with pytest.raises(UserError, match="rescaled already"):
        model.calibrate(SOURCE, TARGET)
    model.initialise()
    model.calibrate(SOURCE, TARGET)
    assert model(SOURCE, TARGET).isfinite().all()


def test_rescaling_needs_to_know_the_matrices() -> None:
    stack = small_stack("admin", 2, omega_form="rescaled")
    with pytest.raises(UserError, match="divides the matrices of sub-layer 1"):
        stack.calibrate(torch.randn(9, 6))


def test_closed_form_works_though_no_weight_is_touched() -> None:
    stack = small_stack("admin", 2, omega="closed-form", init=None)
    assert stack(torch.randn(3, 6)).isfinite().all()
    assert stack.calibrate(torch.randn(3, 6)) is None


def test_a_mask_must_be_boolean_and_reaches_sublayers_that_name_it() -> None:
    seen = []

    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            seen.append(mask)
            return x * mask[..., None]

    stack, x = Stack([[Masked()]], model_dim=6, residual="admin"), torch.randn(2, 3, 6)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    with pytest.raises(UserError, match="mask must hold booleans"):
        stack.calibrate(x, mask.long())
    stack.calibrate(x, mask)
    assert seen[0] is mask


def test_profiling_is_in_full_precision_and_touches_no_other_scheme() -> None:
    class Precision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm, self.seen = nn.Linear(6, 6), nn.BatchNorm1d(6), []

        def forward(self, x: Tensor) -> Tensor:
            answer = self.linear(x)
            self.seen.append(answer.dtype)
            return self.norm(answer.to(x.dtype))

    with torch.autocast("cpu", torch.bfloat16):
        stack = Stack([[Precision()]], model_dim=6, residual="admin")
        frozen = stack.layers[0].sublayers[0].norm.eval()
        stack.calibrate(torch.randn(9, 6))
        assert stack.layers[0].sublayers[0].seen == [torch.float64]
        assert not frozen.training
        other = Stack([[Precision()]], model_dim=6, residual="pre-ln")
        other.calibrate(torch.randn(9, 6))
        assert other.layers[0].sublayers[0].norm.num_batches_tracked == 0
