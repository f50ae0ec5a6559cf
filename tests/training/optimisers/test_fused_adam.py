"""Adam and AdamW with kept lists: the same weights and state as torch's, bit for bit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.training.optimisers import fused_adam

PAIRS = [(fused_adam.FusedAdam, torch.optim.Adam), (fused_adam.FusedAdamW, torch.optim.AdamW)]


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False), nn.LayerNorm(3))


def build(kind: Any, network: nn.Module) -> torch.optim.Optimizer:
    groups = [{"params": [*network[0].parameters()], "weight_decay": 0.1}, {"params": [*network[2:].parameters()]}]
    return kind(groups, lr=0.01, betas=(0.9, 0.98), fused=True)


def train(network: nn.Module, optimiser: torch.optim.Optimizer, first: int, last: int, skipped: int = -1) -> None:
    for step in range(first, last):
        torch.manual_seed(step)
        network(torch.randn(4, 6)).square().sum().backward()
        if step == skipped:
            network[2].weight.grad = None
        for group in optimiser.param_groups:
            group["lr"] = 0.01 / (step + 1)
        optimiser.step()
        optimiser.zero_grad()


def state(network: nn.Module, optimiser: torch.optim.Optimizer) -> list[Tensor]:
    moments = [value for each in network.parameters() for _, value in sorted(optimiser.state[each].items())]
    return [*network.parameters(), *moments]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("skipped", [-1, 0, 3])
def test_weights_and_state_are_those_of_torch(ours: Any, theirs: Any, skipped: int) -> None:
    found = []
    for kind in (ours, theirs):
        network = model()
        optimiser = build(kind, network)
        train(network, optimiser, 0, 6, skipped)
        found.append(state(network, optimiser))
    assert type(optimiser).__name__ == ours.__name__  # checkpoints record the name
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_state_that_is_loaded_is_continued(ours: Any, theirs: Any) -> None:
    found = []
    for kind in (ours, theirs):
        network = model()
        optimiser = build(kind, network)
        train(network, optimiser, 0, 3)
        saved = copy.deepcopy((network.state_dict(), optimiser.state_dict()))
        train(network, optimiser, 3, 5)
        network.load_state_dict(saved[0])
        optimiser.load_state_dict(saved[1])
        train(network, optimiser, 3, 6)
        found.append(state(network, optimiser))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_kept_lists_are_used_after_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model()
    optimiser = build(fused_adam.FusedAdam, network)
    train(network, optimiser, 0, 1)
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self, closure=None: pytest.fail("torch's own step"))
    train(network, optimiser, 1, 3)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_hooks_run_once_a_step_although_torch_has_hooked_its_own_class_too(ours: Any, theirs: Any) -> None:
    build(theirs, model())
    network = model()
    optimiser = build(ours, network)
    calls: list[str] = []
    optimiser.register_step_pre_hook(lambda *_: calls.append("before"))
    optimiser.register_step_post_hook(lambda *_: calls.append("after"))
    train(network, optimiser, 0, 3, skipped=1)
    assert calls == ["before", "after"] * 3
