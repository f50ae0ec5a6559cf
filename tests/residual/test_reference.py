"""Parameters by layer and sub-layer, and norms as formulas: what the references of all schemes use."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.residual.admin import Admin
from lamina.residual.base import Shape
from lamina.residual.norm import NormOptions
from lamina.residual.reference import Parameters

SITE, END = "layers.1.sites.0.norm", "residual.final_norm"


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("eps_factor", [1.0, 10.0])
@pytest.mark.usefixtures("float64")
def test_the_formula_equals_torch_s_norm(kind: str, eps_factor: float) -> None:
    norm = NormOptions.model_validate({"kind": kind, "eps": 0.1})
    modules = {name: norm.build(8, eps_factor) for name in (SITE, END)}
    tensors = {}
    for name, module in modules.items():
        for parameter_name, parameter in module.named_parameters():
            nn.init.normal_(parameter)
            tensors[f"{name}.{parameter_name}"] = parameter
    p, x = Parameters(tensors, Shape(8, 2, 4), norm, Admin.Options()), torch.randn(3, 8)
    torch.testing.assert_close(p.norm(1, 0, eps_factor=eps_factor)(x), modules[SITE](x))
    torch.testing.assert_close(p.end_norm(eps_factor=eps_factor)(x), modules[END](x))


def test_parameters_are_found_by_place() -> None:
    tensors = {"layers.2.sites.1.omega": torch.tensor(3.0), "residual.omega": torch.tensor(5.0)}
    options = Admin.Options()
    p = Parameters(tensors, Shape(8, 3, 6), NormOptions(), options)
    assert p.at(2, 1, "omega") == 3
    assert p.of("omega") == 5
    name = next(iter(Admin.Options.model_fields))
    assert p.option(name) == getattr(options, name)
    with pytest.raises(KeyError):
        p.at(0, 0, "omega")
