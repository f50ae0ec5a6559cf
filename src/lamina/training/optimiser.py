"""The optimisers: torch's own, with what a scheme wants undecayed in a parameter group of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from torch.distributed.tensor import DTensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RAdam

from lamina.model.transformer import Transformer
from lamina.options import Options

Beta = Annotated[float, Field(ge=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OptimiserOptions(Options):
    name: Literal["adam", "adamw", "radam", "sgd"] = "adam"
    """The rule of the update."""
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    """How slowly the two moments forget; for all but `sgd`."""
    eps: NotNegative = 1e-8
    """Added to the root of the second moment; for all but `sgd`."""
    momentum: Beta = 0.0
    """How slowly `sgd` forgets the direction it was going."""
    weight_decay: NotNegative = 0.0
    """Pulls weights to zero: by itself in `adamw` and `radam`, as part of the gradient in `adam` and `sgd`."""


def build_optimiser(options: OptimiserOptions, model: Transformer) -> Optimizer:
    """The optimiser of a model. Its rate is 0 until `set_learning_rate` gives it the schedule's, at every step."""
    groups = _parameter_groups(model, options.weight_decay)
    moments: dict[str, Any] = {"lr": 0.0, "betas": options.betas, "eps": options.eps}
    fused = _fused(groups, options.name)
    match options.name:
        case "adam":
            return Adam(groups, fused=fused, **moments)
        case "adamw":
            return AdamW(groups, fused=fused, **moments)
        case "radam":  # no fused kernel; the decay is by itself as in its authors' program
            return RAdam(groups, decoupled_weight_decay=True, **moments)
        case "sgd":
            return SGD(groups, lr=0.0, momentum=options.momentum, fused=fused)


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def _parameter_groups(model: Transformer, weight_decay: float) -> list[dict[str, Any]]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    spared = set(model.undecayed_parameters())
    groups = [
        {"params": [each for each in trained if each not in spared], "weight_decay": weight_decay},
        {"params": [each for each in trained if each in spared], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _fused(groups: list[dict[str, Any]], name: str) -> bool | None:
    """One pass over memory for the whole update: on a CPU three times as fast as the loop, and foreach is no faster.

    Other devices may lack the kernel, and sgd's does not know slices: there torch decides.
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    if name == "sgd" and any(isinstance(each, DTensor) for each in parameters):
        return None
    return True if {each.device.type for each in parameters} in ({"cpu"}, {"cuda"}) else None
