"""The optimisers, one per file: `adam.py` is "adam" in a config.

Installed packages add optimisers through the entry-point group `lamina.optimisers`.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field, NonNegativeFloat, SerializeAsAny, ValidationInfo, field_validator

from lamina.model.transformer import Transformer
from lamina.options import Names, Options, OptionsOf, own_options
from lamina.registry import Registry
from lamina.training.optimisers.base import Optimiser, ParameterGroups

OPTIMISERS = Registry(__name__, Optimiser, kind="optimiser", group="lamina.optimisers")

Beta = Annotated[float, Field(ge=0, lt=1)]


class OptimiserOptions(Options):
    name: Annotated[str, Names(lambda: OPTIMISERS)] = "adam"
    """The update rule; installed packages may add others."""
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    """Adam's β₁ and β₂: decay of the running means of the gradient and of its square."""
    eps: NonNegativeFloat = 1e-8
    """Adam's ε, added to the root of the second moment."""
    momentum: Beta = 0.0
    """Momentum of `sgd`; 0 for none."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay: decoupled from the gradient in `adamw` and `radam`, added to the gradient in `adam` and `sgd`."""
    options: Annotated[SerializeAsAny[Options], OptionsOf("name")] = Field(Options(), validate_default=True)
    """Options of this optimiser alone; `adam`, `adamw`, `radam` and `sgd` have none."""

    @field_validator("name")
    @classmethod
    def _known_name(cls, given: str) -> str:
        return OPTIMISERS[given].name

    @field_validator("options", mode="before")
    @classmethod
    def _options_of_the_optimiser(cls, given: Any, checked: ValidationInfo) -> Any:
        name = checked.data.get("name")
        return Options() if name is None else own_options(OPTIMISERS[name].Options, given)

    def choose(self) -> Optimiser:
        """The optimiser of that name."""
        return OPTIMISERS[self.name](self)


def build_optimiser(options: OptimiserOptions, model: Transformer) -> torch.optim.Optimizer:
    """The optimiser of a model; its learning rate is 0 until `set_learning_rate` is called, before every step."""
    return options.choose().build(_parameter_groups(model, options.weight_decay))


def set_learning_rate(optimiser: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = learning_rate


def _parameter_groups(model: Transformer, weight_decay: float) -> ParameterGroups:
    """The trained parameters; those that the residual scheme excludes from weight decay in a group of their own."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    undecayed = set(model.undecayed_parameters())
    groups: ParameterGroups = [
        {"params": [each for each in trained if each not in undecayed], "weight_decay": weight_decay},
        {"params": [each for each in trained if each in undecayed], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
