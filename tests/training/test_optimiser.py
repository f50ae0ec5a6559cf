"""Optimisers: the first updates by hand, every parameter once, and no decay where a scheme wants none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lamina.errors import UserError
from lamina.training.optimiser import OptimiserOptions, build_optimiser, set_learning_rate
from support.small_models import small_model

NAMES = ["adam", "adamw", "radam", "sgd"]


def build(model: Any, **values: Any) -> torch.optim.Optimizer:
    return build_optimiser(OptimiserOptions.read(values, "test"), model)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # One weight, 2.0; gradient 0.5; rate 0.1; decay 0.01: the first update of each rule.
        ({"name": "adam"}, 2 - 0.1 * (0.5 + 0.02) / (0.5 + 0.02)),
        ({"name": "adam", "eps": 0.5}, 2 - 0.1 * 0.52 / (0.52 + 0.5)),
        ({"name": "adamw"}, 2 * (1 - 0.001) - 0.1),
        ({"name": "radam"}, 2 * (1 - 0.001) - 0.1 * 0.5),  # not yet rectified: momentum alone
        ({"name": "sgd"}, 2 - 0.1 * 0.52),
    ],
)
def test_the_first_update_by_hand(float64: None, values: dict[str, Any], expected: float) -> None:
    model = nn.ParameterList([nn.Parameter(torch.full((3,), 2.0))])
    model.undecayed_parameters = lambda: iter(())  # type: ignore[assignment]
    optimiser = build(model, weight_decay=0.01, **values)
    set_learning_rate(optimiser, 0.1)
    model[0].grad = torch.full((3,), 0.5)
    optimiser.step()
    assert model[0].tolist() == pytest.approx([expected] * 3, rel=1e-6)


def test_betas_and_momentum_arrive(float64: None) -> None:
    parameter = nn.Parameter(torch.zeros(1))
    model = nn.ParameterList([parameter])
    model.undecayed_parameters = lambda: iter(())  # type: ignore[assignment]
    parameter.grad = torch.ones(1)
    adam = build(model)
    adam.step()
    assert adam.state[parameter]["exp_avg"].item() == pytest.approx(0.1)
    assert adam.state[parameter]["exp_avg_sq"].item() == pytest.approx(0.02)
    sgd = build(model, name="sgd", momentum=0.5)
    set_learning_rate(sgd, 1.0)
    sgd.step()
    sgd.step()
    assert parameter.item() == pytest.approx(-(1 + 1.5))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_moves_before_the_schedule_gives_a_rate(name: str) -> None:
    model = small_model("post-ln")
    optimiser = build(model, name=name, weight_decay=0.1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["adamw", "radam"])
def test_what_a_scheme_spares_is_not_decayed(name: str) -> None:
    model = small_model("admin")
    spared = list(model.undecayed_parameters())
    assert spared
    before = [parameter.clone() for parameter in model.parameters()]
    optimiser = build(model, name=name, weight_decay=0.5)
    set_learning_rate(optimiser, 0.1)
    for _ in range(10):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()
    for parameter, old in zip(model.parameters(), before, strict=True):
        shrunk = old if any(parameter is each for each in spared) else old * 0.95**10
        torch.testing.assert_close(parameter.detach(), shrunk.detach())


@pytest.mark.parametrize("residual", ["post-ln", "admin"])
@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_trained_once(residual: str, name: str) -> None:
    model = small_model(residual)
    groups = build(model, name=name, weight_decay=0.1).param_groups
    trained = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(trained) == sorted(id(parameter) for parameter in model.parameters())
    assert len(groups) == (2 if residual == "admin" else 1)


def test_frozen_parameters_are_left_out() -> None:
    model = small_model("post-ln")
    model.encoder.requires_grad_(False)
    groups = build(model).param_groups
    frozen = {id(parameter) for parameter in model.encoder.parameters()}
    assert not frozen & {id(parameter) for group in groups for parameter in group["params"]}


def test_the_fused_kernel_where_there_is_one() -> None:
    model = small_model("post-ln")
    assert all(build(model, name=name).defaults["fused"] for name in ("adam", "adamw", "sgd"))
    assert not build(model.to("meta")).defaults["fused"]


@pytest.mark.parametrize("wrong", [{"name": "lion"}, {"betas": [0.9, 1.0]}, {"eps": -1}, {"momentum": 1}])
def test_mistakes_are_explained(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"optimiser: {next(iter(wrong))}"):
        OptimiserOptions.read(wrong, "optimiser")
