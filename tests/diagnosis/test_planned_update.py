"""The next update of an optimiser, without making it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lamina.diagnosis.planned_update import PlannedUpdate, planned_update
from lamina.errors import UserError


def model_of(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(4, 3)


def plan(model: nn.Module, optimiser: Optimizer | None = None, learning_rate: float | None = None) -> PlannedUpdate:
    def backward() -> None:
        model.zero_grad()
        model(torch.arange(8.0).view(2, 4)).square().mean().backward()

    return planned_update(model, backward, optimiser, learning_rate)


@pytest.mark.parametrize("steps", [0, 3])
def test_it_is_the_step_that_the_optimiser_then_makes(steps: int) -> None:
    model = model_of()
    optimiser = AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    for _ in range(steps):
        model(torch.ones(2, 4)).mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    before = copy.deepcopy((model.state_dict(), optimiser.state_dict()))
    called: list[int] = []
    optimiser.register_step_post_hook(lambda *_: called.append(1))
    found = plan(model, optimiser)
    assert called == [], "a watch does not see it"
    after = copy.deepcopy((model.state_dict(), optimiser.state_dict()))
    assert str(before) == str(after)
    optimiser.step()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.detach() - before[0][name], found.changes[parameter], atol=1e-7)
    assert found.settings["weight_decay"] == (0.1,)
    assert bool(found.adam_rms) == bool(steps)


def test_adams_second_moment_by_a_plain_loop() -> None:
    model = model_of()
    optimiser = AdamW(model.parameters(), betas=(0.9, 0.5))
    for number in range(2):
        model(torch.full((2, 4), number + 1.0)).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    second = optimiser.state[model.weight]["exp_avg_sq"].clone() / (1 - 0.5**2)
    found = plan(model, optimiser)
    assert model.weight.grad is not None
    terms = [g * g / v for g, v in zip(model.weight.grad.flatten().tolist(), second.flatten().tolist(), strict=True)]
    assert found.adam_rms[model.weight] == pytest.approx((sum(terms) / len(terms)) ** 0.5, rel=1e-5)


def test_without_an_optimiser_it_is_adams_first_step() -> None:
    model = model_of()
    found = plan(model, None, 0.5)
    assert found.assumed
    assert found.changes[model.weight].abs().min().item() == pytest.approx(0.5, rel=1e-4)
    assert found.learning_rate == 0.5


def test_the_highest_learning_rate_of_a_warm_up_is_planned() -> None:
    model = model_of()
    optimiser = SGD(model.parameters(), lr=0.2)
    LambdaLR(optimiser, lambda step: step / 100)
    assert optimiser.param_groups[0]["lr"] == 0.0
    found = plan(model, optimiser)
    assert (found.learning_rate, found.epsilon) == (0.2, None)
    assert found.changes[model.weight].any()
    assert optimiser.param_groups[0]["lr"] == 0.0


def test_a_group_without_learning_rate_and_decay() -> None:
    model = model_of()
    groups = [{"params": [model.weight], "lr": 0.0}, {"params": [model.bias], "weight_decay": 2.0}]
    found = plan(model, AdamW(groups, lr=0.1))
    assert not found.changes[model.weight].any()
    assert found.decay[model.bias] == pytest.approx(0.2)
    size = model.bias.grad.square().mean().sqrt().item()  # type: ignore[union-attr]
    assert found.gradient_sizes[model.bias] == pytest.approx(size)


def test_the_weights_are_moved_and_restored() -> None:
    model = model_of()
    before = model.weight.detach().clone()
    found = plan(model, None, 0.5)
    with found.applied() as move:
        move(2.0)
        assert torch.allclose(model.weight, before + 2 * found.changes[model.weight])
    assert torch.equal(model.weight, before)


def test_an_optimiser_of_another_model_is_refused() -> None:
    with pytest.raises(UserError, match="none of the model's parameters"):
        plan(model_of(), SGD(model_of().parameters(), lr=1.0))
