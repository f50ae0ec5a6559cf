"""What is diagnosed: a model as it stands, seen on several batches, or a way to make one, seen at several seeds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lamina.diagnosis.batch import Loss, passes_over
from lamina.diagnosis.measures.gradient_against_depth import Factory
from lamina.diagnosis.recording.passes import Pass, check_model, random_state_kept
from lamina.diagnosis.thresholds import VerdictOptions
from lamina.errors import UserError

OUTPUT_DEPTHS = (2, 4, 8, 16)
"""Quick. Liu et al. go up to 200 sub-layers."""


@dataclass(frozen=True, eq=False)
class Subject:
    name: str
    passes: Sequence[Pass]
    model: nn.Module | None = None
    """As it stands …"""
    factory: Factory | None = None
    """… or made anew for every seed."""
    any_depth: bool = False
    """Whether the factory can make models of other depths."""
    depths: tuple[int, ...] = OUTPUT_DEPTHS
    """The numbers of layers at which the change of the output is measured."""
    optimiser: Optimizer | None = None
    """Of a trained model, in the state in which training left it."""
    step: int | None = None
    rate: float | None = None
    """The highest at which Adam is to train it, where that is known."""
    thresholds: VerdictOptions | None = None
    """From which numbers on a verdict warns; the defaults if None."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know; passes may add to it."""

    def __post_init__(self) -> None:
        if len(set(self.depths)) < 2 or min(self.depths) < 1:
            raise UserError(f"depths are at least two numbers of layers, from 1 up, not {self.depths}")
        if self.rate is not None and not (isfinite(self.rate) and self.rate > 0):
            raise UserError(f"rate is the highest learning rate, above 0, not {self.rate}")

    def build(self, seed: int) -> nn.Module:
        """The model of a seed, checked; the one there is, if there is one."""
        model = self.model if self.factory is None else self.factory(seed, None)
        assert model is not None
        check_model(model)
        return model


def subject_of(
    module_or_factory: nn.Module | Callable[..., nn.Module],
    batch: Any,
    loss: Loss | None = None,
    *,
    batches: int = 4,
    depths: Sequence[int] = OUTPUT_DEPTHS,
    name: str | None = None,
    thresholds: VerdictOptions | None = None,
    rate: float | None = None,
) -> Subject:
    """A module, or a function of a seed (and of `num_layers`, for measures against depth) that makes one."""
    if batches < 1:
        raise UserError(f"batches is the number of pieces that a batch is cut into, at least 1, not {batches}")
    factory, any_depth = (None, False) if isinstance(module_or_factory, nn.Module) else as_factory(module_or_factory)
    with random_state_kept():
        model = factory(1, None) if factory else module_or_factory
    assert isinstance(model, nn.Module)
    check_model(model)
    notes: list[str] = []
    return Subject(
        name=name or type(model).__name__,
        passes=passes_over(model, batch, loss, batches, notes),
        model=None if factory else model,
        factory=factory,
        any_depth=any_depth,
        depths=tuple(depths),
        rate=rate,
        thresholds=thresholds,
        notes=notes,
    )


def as_factory(make: object) -> tuple[Factory, bool]:
    """A user's function as a factory, and whether it takes `num_layers`. It need not even take a seed."""
    if not callable(make):
        kind = type(make).__name__
        raise UserError(f"a module, or a function that makes one from a seed, is needed, but this is a {kind}")
    try:
        parameters = dict(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # a builtin does not say
        takes_seed, depth = True, None
    else:
        depth = parameters.pop("num_layers", None)
        takes_seed = bool(parameters)
    if depth is not None and depth.default is depth.empty:
        raise UserError(
            "num_layers of the factory needs a default, the depth at which most measures are taken: "
            "def make(seed, num_layers=6)"
        )

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        torch.manual_seed(seed)
        options = {} if num_layers is None else {"num_layers": num_layers}
        model = make(*([seed] if takes_seed else []), **options)
        if not isinstance(model, nn.Module):
            raise UserError(f"the factory returned a {type(model).__name__}, not a torch module")
        return model

    return factory, depth is not None
