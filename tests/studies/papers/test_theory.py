"""The stacks of the proofs: their sub-layers as formulas, and what is recorded of them."""

from __future__ import annotations

import pytest
import torch

from lamina.studies.papers.theory import (
    MeanAttention,
    OneMatrix,
    TwoMatrices,
    gaussian_inputs,
    gaussian_stack,
    run_theory,
    squared_norm,
    theory_stack,
)


def test_sub_layers_are_those_of_the_proofs() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 3, 8)
    attention, relu, linear = MeanAttention(8), TwoMatrices(8), OneMatrix(8)
    for sentence in range(2):
        mean = torch.stack([attention.value @ x[sentence, at] for at in range(3)]).mean(0)
        torch.testing.assert_close(attention(x)[sentence], mean.expand(3, 8))
        inner = (relu.inner @ x[sentence, 1]).clamp(min=0)
        torch.testing.assert_close(relu(x)[sentence, 1], relu.outer @ inner)
        torch.testing.assert_close(linear(x)[sentence, 1], linear.outer @ x[sentence, 1])


def test_entries_have_the_variance_1_over_d() -> None:
    stack = theory_stack("pre-ln", 2, 256, seed=1)
    weights = [each for name, each in stack.named_parameters() if "sublayers" in name]
    assert len(weights) == 6
    assert all(each.var().item() == pytest.approx(1 / 256, rel=0.05) for each in weights)


@pytest.mark.parametrize("linear", [False, True])
def test_a_pass_is_recorded_with_gradients(linear: bool) -> None:
    stack = theory_stack("post-ln", 2, 16, seed=1, linear=linear)
    inputs = gaussian_inputs(2, 4, 16, seed=1)
    record = run_theory(stack, inputs, "squared")
    assert len(record.sublayers) == 4
    assert len(record.norms) == 4
    outer = stack.layers[1].sublayers[1].outer
    assert isinstance(outer, torch.nn.Parameter)
    assert outer.grad is not None
    torch.testing.assert_close(record.output.value, stack(inputs).detach())


def test_the_same_seed_gives_the_same_inputs_and_weights() -> None:
    torch.testing.assert_close(gaussian_inputs(1, 2, 4, seed=3), gaussian_inputs(1, 2, 4, seed=3))
    assert not torch.equal(gaussian_inputs(1, 2, 4, seed=3), gaussian_inputs(1, 2, 4, seed=4))
    first, second = (dict(theory_stack("post-ln", 1, 8, seed=5).named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_squared_norms_are_per_position_and_channel() -> None:
    assert squared_norm(torch.full((2, 3, 4), 2.0)).tolist() == [[4.0] * 3] * 2


def test_gaussian_branches_do_not_depend_on_the_stream() -> None:
    stack = gaussian_stack("pre-ln", 3, 64, deviation=2.0)
    torch.manual_seed(1)
    first = run_theory(stack, torch.zeros(500, 64))
    torch.manual_seed(1)
    second = run_theory(stack, torch.ones(500, 64))
    for one, other in zip(first.sublayers, second.sublayers, strict=True):
        assert one.branch is not None
        assert other.branch is not None
        assert torch.equal(one.branch.value, other.branch.value)
        assert one.branch.value.var().item() == pytest.approx(4, rel=0.05)


def test_the_gradient_of_the_linear_loss_does_not_depend_on_the_output() -> None:
    stack, inputs = theory_stack("post-ln", 1, 16, seed=1), gaussian_inputs(4, 1, 16, seed=1)
    linear = run_theory(stack, inputs, "linear").output.gradient_norm
    squared = run_theory(stack, inputs, "squared").output.gradient_norm
    assert linear == pytest.approx(gaussian_inputs(4, 1, 16, seed=1).norm().item() / 4)
    assert squared != pytest.approx(linear)
