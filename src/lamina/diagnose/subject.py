"""What is diagnosed: a model as it stands, seen on several batches, or a way to make one, seen at several seeds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lamina.diagnose.batch import Loss, passes_over
from lamina.diagnose.measure.gradient_against_depth import Factory
from lamina.diagnose.passes import Pass, check_model
from lamina.diagnose.thresholds import VerdictOptions
from lamina.errors import UserError


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
    step: int | None = None
    thresholds: VerdictOptions | None = None
    """From which numbers on a verdict warns; the defaults if None."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know; passes may add to it."""

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
    name: str | None = None,
    thresholds: VerdictOptions | None = None,
) -> Subject:
    """A module, or a function of a seed (and of `num_layers`, for measures against depth) that makes one."""
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
        thresholds=thresholds,
        notes=notes,
    )


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Whatever is seeded and drawn inside, outside nothing has changed."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices):
        yield


def as_factory(make: object) -> tuple[Factory, bool]:
    """A user's function as a factory, and whether it takes `num_layers`. It need not even take a seed."""
    if not callable(make):
        kind = type(make).__name__
        raise UserError(f"a module, or a function that makes one from a seed, is needed, but this is a {kind}")
    try:
        names = [each for each in inspect.signature(make).parameters if each != "num_layers"]
        any_depth = len(names) < len(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # a builtin does not say
        names, any_depth = ["seed"], False

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        torch.manual_seed(seed)
        options = {} if num_layers is None else {"num_layers": num_layers}
        model = make(*([seed] if names else []), **options)
        if not isinstance(model, nn.Module):
            raise UserError(f"the factory returned a {type(model).__name__}, not a torch module")
        return model

    return factory, any_depth
