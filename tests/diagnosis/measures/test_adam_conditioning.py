from __future__ import annotations

from statistics import fmean, stdev

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.adam_conditioning import CONDITION_NUMBER, AdamConditioning, AdamRule, sensitivity
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.recording.layers import find_layers
from support.recorded import fact, feed_forward_stack, line, some_loss


def update(rule: AdamRule, gradient: Tensor, first: Tensor, second: Tensor, step: int) -> Tensor:
    """Adam as its authors print it."""
    one, two = rule.betas
    first = one * first + (1 - one) * gradient
    second = two * second + (1 - two) * gradient**2
    return rule.learning_rate * (first / (1 - one**step)) / ((second / (1 - two**step)).sqrt() + rule.eps)


@pytest.mark.parametrize("size", [1e-9, 1e-7, 1e-6, 1.0])
@pytest.mark.parametrize("step", [1, 2, 20])
def test_the_sign_is_a_minus(size: float, step: int, float64: None) -> None:
    """The derivative of the update, against autograd."""
    rule = AdamRule()
    gradient, first = size * torch.randn(2, 50)
    second = size**2 * torch.rand(50) * (step > 1)
    first = first * (step > 1)
    jacobian = torch.autograd.functional.jacobian(lambda g: update(rule, g, first, second, step), gradient)
    assert torch.equal(jacobian, jacobian.diag().diag())
    found = rule.sensitivity(gradient, *rule.moments(gradient, first, second), step)
    assert torch.allclose(found, jacobian.diag(), rtol=1e-6, atol=0)


DEVIATIONS = (0.0, 1e-8, 2e-8, 5e-8, 1e-7)


def simulate(rule: AdamRule, deviation: float, dim: int = 1024, steps: int = 20, seed: int = 0) -> list[float]:
    """κ of the updates that gradients drawn from N(0, σ²) make, as in figure 3."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.zeros(2, dim, dtype=torch.float64)
    found = []
    for step in range(1, steps + 1):
        gradient = deviation * torch.randn(dim, generator=generator, dtype=torch.float64)
        first, second = rule.moments(gradient, first, second)
        found.append(rule.sensitivity(gradient, first, second, step).norm().item())
    return found


def test_the_papers_numbers() -> None:
    found = {deviation: simulate(AdamRule(), deviation) for deviation in DEVIATIONS}
    without_gradient = [0.1 * 3200 / (1 - 0.9**step) for step in range(1, 21)]
    assert found[0.0][0] == pytest.approx(3200, abs=1)
    assert found[0.0] == pytest.approx(without_gradient)
    assert all(kappas[-1] > 300 for kappas in found.values())
    for step in range(20):
        kappas = [found[deviation][step] for deviation in DEVIATIONS]
        assert kappas == sorted(kappas, reverse=True)
    assert simulate(AdamRule(learning_rate=1e-4 / 4000), 0.0)[0] == pytest.approx(0.8)


def test_kappa_within_two_percent_and_three_standard_errors() -> None:
    """3200 is the limit of no gradient. At the first step u = α·g/(|g| + ε), so that ∂u/∂g = α/ε · (1 + |g|/ε)⁻²."""
    found = [simulate(AdamRule(), 1e-9, steps=1, seed=seed)[0] for seed in range(32)]
    assert fmean(found) == pytest.approx(3200, rel=0.02)
    evenly = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    sizes = 1e-3 * torch.special.ndtri(evenly).abs()  # |g|/ε
    expected = 3200 * (1 + sizes).pow(-4).mean().sqrt().item()
    assert abs(fmean(found) - expected) <= 3 * stdev(found) / len(found) ** 0.5


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_condition_of_a_real_optimiser(kind: type[torch.optim.Adam], float64: None) -> None:
    stack, x = feed_forward_stack("post-ln", 2, 8), torch.randn(5, 8)
    rule = AdamRule(learning_rate=3e-3, eps=1e-4)
    optimiser = kind(stack.parameters(), lr=rule.learning_rate, betas=rule.betas, eps=rule.eps, weight_decay=0.0)
    weight = stack.entries[0].matrices[0].weight
    first, second = torch.zeros(2, 8, 8)
    for step in (1, 2, 3):
        optimiser.zero_grad()
        some_loss(stack(x)).backward()
        gradient = weight.grad.clone()
        derivative = _derivative(rule, gradient, first, second, step)
        first, second = rule.moments(gradient, first, second)
        optimiser.step()
    matrix = next(each for each in find_layers(stack).matrices if each.parameter is weight)
    group = optimiser.param_groups[0]
    assert torch.allclose(sensitivity(optimiser, group, matrix), derivative, rtol=1e-6)
    each = [sensitivity(optimiser, group, matrix) for matrix in find_layers(stack).matrices]
    found = AdamConditioning().of(optimiser, find_layers(stack).matrices)
    assert fact(found, "κ") == pytest.approx(torch.cat([one.flatten() for one in each]).norm().item())
    assert fact(found, "operator norm") == max(one.abs().max().item() for one in each)
    assert (fact(found, "learning rate"), fact(found, "ε")) == (rule.learning_rate, rule.eps)
    expected = [(128**0.5) * rule.learning_rate / rule.eps] * 2
    assert line(found, role="predicted", quantity="without gradient", stack="stack") == pytest.approx(expected)
    optimiser.zero_grad()
    zero = torch.zeros(8, 8)
    assert torch.allclose(sensitivity(optimiser, group, matrix), _derivative(rule, zero, first, second, 4), rtol=1e-6)


def test_decay_that_is_not_decoupled_is_part_of_the_gradient(float64: None) -> None:
    stack, x = feed_forward_stack("post-ln", 1, 8), torch.randn(5, 8)
    rule = AdamRule(learning_rate=1e-8, eps=1e-4)  # so slow that the weights after the step are those before it
    optimiser = torch.optim.Adam(
        stack.parameters(), lr=rule.learning_rate, betas=rule.betas, eps=rule.eps, weight_decay=0.5
    )
    weight = stack.entries[0].matrices[0].weight
    some_loss(stack(x)).backward()
    gradient = (weight.grad + 0.5 * weight).detach()
    optimiser.step()
    matrix = next(each for each in find_layers(stack).matrices if each.parameter is weight)
    expected = _derivative(rule, gradient, torch.zeros(8, 8), torch.zeros(8, 8), 1)
    assert torch.allclose(sensitivity(optimiser, optimiser.param_groups[0], matrix), expected, rtol=1e-2)


def test_other_optimisers_are_not_measured() -> None:
    stack = feed_forward_stack("post-ln", 1, 8)
    some_loss(stack(torch.randn(5, 8))).backward()
    for optimiser in (
        torch.optim.SGD(stack.parameters(), lr=0.1),
        torch.optim.Adam(stack.parameters(), amsgrad=True),
    ):
        optimiser.step()
        with pytest.raises(NotMeasurable, match="not Adam"):
            AdamConditioning().of(optimiser, find_layers(stack).matrices)


def _derivative(rule: AdamRule, gradient: Tensor, first: Tensor, second: Tensor, step: int) -> Tensor:
    gradient = gradient.clone().requires_grad_()
    if not gradient.any():  # the root has no derivative at v = 0, so a point very near to it is used
        gradient = (gradient + 1e-30).detach().requires_grad_()
    (found,) = torch.autograd.grad(update(rule, gradient, first, second, step).sum(), gradient)
    return found


def test_rows_that_never_had_a_gradient_do_not_count() -> None:
    """A table of words in two sizes, of which the same four words occur."""
    found = []
    for words in (4, 400):
        torch.manual_seed(0)
        table = nn.Embedding(words, 3)
        model = nn.ModuleDict(
            {"layers": nn.ModuleList(nn.Sequential(nn.Linear(3, 3)) for _ in range(2)), "table": table}
        )
        with torch.no_grad():
            table.weight[:4] = torch.arange(1.0, 13.0).view(4, 3)
        optimiser = torch.optim.Adam(table.parameters(), lr=1e-3)
        table(torch.arange(4)).square().sum().backward()
        optimiser.step()
        matrices = [each for each in find_layers(model).matrices if each.parameter is table.weight]
        found.append(AdamConditioning().of(optimiser, matrices).fact(CONDITION_NUMBER))
    assert found[0] == pytest.approx(found[1])
