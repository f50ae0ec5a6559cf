"""A user's function that builds models, as the diagnosis calls it: by seed, by number of layers, by width."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from lamina.diagnosis.measures.base import Factory, OfWidth
from lamina.errors import UserError


def as_factory(make: object) -> tuple[Factory, bool]:
    """A user's function as a factory, and whether it takes `num_layers`. It may take no seed."""
    if not callable(make):
        kind = type(make).__name__
        raise UserError(f"a module, or a function that builds one from a seed, is needed, but this is a {kind}")
    try:
        parameters = dict(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # a builtin has no signature
        takes_seed, depth = True, None
    else:
        depth = parameters.pop("num_layers", None)
        parameters.pop("width", None)
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


def as_width_factory(make: Callable[..., Any]) -> tuple[OfWidth | None, int | None]:
    """A user's function as a function of the width, and its default width; None if it does not take `width`."""
    try:
        width = inspect.signature(make).parameters.get("width")
    except (TypeError, ValueError):  # a builtin has no signature
        return None, None
    if width is None:
        return None, None
    if not isinstance(width.default, int):
        raise UserError(
            "width of the factory needs a number as its default, the width at which most measures are taken: "
            "def make(seed, width=512)"
        )
    return lambda chosen: as_factory(partial(make, width=chosen))[0](1, None), width.default


def widths_below(width: int, multiple_of: int = 1) -> tuple[int, ...]:
    """The width, its half and its quarter, those that are multiples of a number, such as that of the heads."""
    return tuple(each for each in (width // 4, width // 2, width) if each and each % multiple_of == 0)
