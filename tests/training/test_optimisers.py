"""Optimisers: the first updates by hand, every parameter once, and no decay of parameters that a scheme excludes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.errors import UserError
from lamina.training.optimisers import OPTIMISERS, OptimiserOptions, build_optimiser, set_learning_rate
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
def test_no_weight_changes_before_the_learning_rate_is_set(name: str) -> None:
    model = small_model("post-ln")
    optimiser = build(model, name=name, weight_decay=0.1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["adamw", "radam"])
def test_parameters_that_a_scheme_excludes_are_not_decayed(name: str) -> None:
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


@pytest.mark.parametrize("wrong", [{"name": "lion"}, {"betas": [0.9, 1.0]}, {"eps": -1}, {"momentum": 1}])
def test_mistakes_are_explained(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"optimiser: {next(iter(wrong))}"):
        OptimiserOptions.read(wrong, "optimiser")


NEW = """
import torch
from lamina.options import Options
from lamina.training.optimisers.base import Optimiser

class SignDescent(Optimiser):
    name = "sign-descent"

    class Options(Options):
        smoothing: float = 0.5
        "How much of the last gradient is kept."

    def build(self, groups):
        return torch.optim.Rprop(groups, lr=0.0, etas=(self.own.smoothing, 1.2))

    def state_tensors(self):
        return 2
"""
USE = """
import torch
from lamina.training.config import RunConfig
from lamina.training.optimisers import OptimiserOptions, build_optimiser
values = {"optimiser": {"name": "sign-descent", "options": {"smoothing": 0.25}}}
options = RunConfig.read(values, where="test").optimiser
model = torch.nn.Linear(2, 2)
model.undecayed_parameters = lambda: iter(())
print(build_optimiser(options, model).defaults["etas"], options.choose().state_tensors())
try:
    OptimiserOptions.read({"name": "sign-descent", "options": {"smoothin": 1}}, "optimiser")
except ValueError as error:
    print(error)
"""


def use_new_optimiser(path: Path) -> str:
    package = Path(lamina.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{package}"}
    ran = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_one_new_file_is_a_new_optimiser(tmp_path: Path) -> None:
    package = Path(lamina.__file__).parent
    shutil.copytree(package, tmp_path / "lamina", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "lamina" / "training" / "optimisers" / "sign_descent.py").write_text(NEW)
    built, refused = use_new_optimiser(tmp_path).splitlines()
    assert built == "(0.25, 1.2) 2"
    assert refused.startswith("optimiser: ")
    assert "unknown option 'smoothin'; did you mean 'smoothing'" in refused


def test_an_installed_package_adds_optimisers_by_entry_point(tmp_path: Path) -> None:
    (tmp_path / "someones.py").write_text(NEW)
    metadata = tmp_path / "someones-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someones\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[lamina.optimisers]\nsign-descent = someones:SignDescent\n")
    assert use_new_optimiser(tmp_path).startswith("(0.25, 1.2) 2\n")


def test_every_optimiser_keeps_as_much_as_it_says() -> None:
    for name in OPTIMISERS:
        model = small_model("post-ln")
        for options in ({"name": name}, {"name": name, "momentum": 0.5}):
            optimiser = build(model, **options)
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            optimiser.step()
            weight = next(each for each in model.parameters() if each.dim() == 2)
            kept = [value for value in optimiser.state[weight].values() if torch.is_tensor(value) and value.dim() == 2]
            assert len(kept) == OptimiserOptions.read(options, "test").choose().state_tensors(), options


def test_every_optimiser_is_tested() -> None:
    assert list(OPTIMISERS) == NAMES
