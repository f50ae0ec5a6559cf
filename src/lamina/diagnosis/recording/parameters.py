"""The parameters of a model after a backward pass: which have a gradient, and why the others have none.

A parameter without gradient is *frozen* if `requires_grad` is False. Otherwise the loss is computed again after a small
change of its value: if the loss changes, the parameter is used and was *detached* from the graph; if not, its module
did not run, or ran without effect on the loss. A gradient of exact zeros is attributed to the nearest parameter that
is zero: a gain, or a matrix that was initialised to zero.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

Cause = Literal[
    "frozen",
    "detached",
    "not in the optimiser",
    "unused",
    "without effect",
    "zero gain",
    "zero-initialised",
    "zero gradient",
]
"""Why a parameter has no gradient.

frozen                  requires_grad is False
detached                the loss depends on it, but the graph does not reach it
not in the optimiser    in training: it has a gradient, but the optimiser was not given it
unused                  its module was not called in the forward pass
without effect          its module was called, but the loss does not depend on it
zero gain               its gradient is zero because of a vector of gains that is zero
zero-initialised        its gradient is zero because of a matrix, or a single number such as ReZero's, that is zero
zero gradient           its gradient is zero for another reason, such as units that are never active
"""
CHANGE = 0.05
"""The change of a parameter, relative to its root mean square, by which its effect on the loss is tested."""
ADDED = re.compile(r"(^|_)(bias|beta|shift|tokens?|pos|positions?)\d*$", re.IGNORECASE)
"""Names of parameters that are added, not multiplied: if they are zero, gradients are not."""


@dataclass(frozen=True)
class ParameterRecord:
    """One parameter after the backward pass."""

    path: str
    stack: str | None
    layer: int | None
    """From 0; None outside the repeated layers."""
    numbers: int
    matrix: bool
    """Whether more than one of its dimensions is larger than 1."""
    cause: Cause | None = None
    """Why it has no gradient; None if it has one."""
    because_of: str = ""
    """The path of the parameter that is zero, where that is the cause."""

    @property
    def is_gain(self) -> bool:
        """Whether it is a vector, as the gain of a norm."""
        return not self.matrix and self.numbers > 1

    @property
    def module(self) -> str:
        """The path of the module that holds it; its own where that is the whole model."""
        return self.path.rpartition(".")[0] or self.path


def explain_gradients(
    model: nn.Module,
    layers: Mapping[str, Sequence[Sequence[nn.Module]]],
    ran: Collection[nn.Module],
    run: Callable[[], Tensor] | None = None,
    optimised: Collection[int] | None = None,
) -> list[ParameterRecord]:
    """Every parameter, in the order of the model, with the reason why it has no gradient.

    layers: for every stack the modules of every layer.
    ran: the modules that were called in the forward pass.
    run: computes the loss again, without gradient and with the same random numbers at every call. Without it, layers
        that ran below a layer with a gradient are taken to be detached.
    optimised: the ids of the parameters that the optimiser was given; None if there is no optimiser.
    """
    place = layer_of_parameters(layers)
    named = dict(model.named_parameters())
    has_gradient = _nonzero({path: each.grad for path, each in named.items()})
    records: dict[str, ParameterRecord] = {}
    for path, parameter in named.items():
        stack, layer = place.get(id(parameter), (None, None))
        cause: Cause | None = None
        if not parameter.requires_grad:
            cause = "frozen"
        elif not has_gradient[path]:
            cause = "without effect" if parameter.grad is None else "zero gradient"
        elif optimised is not None and id(parameter) not in optimised:
            cause = "not in the optimiser"
        matrix = sum(size > 1 for size in parameter.shape) > 1
        records[path] = ParameterRecord(path, stack, layer, parameter.numel(), matrix, cause)
    dropped = _layers_that_did_not_run(layers, ran)
    for path, each in records.items():
        if each.cause == "without effect" and (each.stack, each.layer) in dropped:
            records[path] = replace(each, cause="unused")
    missing = [each for each in records.values() if each.cause == "without effect"]
    used = _probably_used(records.values()) if run is None else set(_detached(named, missing, run))
    for each in missing:
        runs = _ran(model, each.module, ran) or (run is None and each.layer is not None)
        unused: Cause = "without effect" if runs else "unused"
        is_detached = each.path in used and (runs or run is not None)
        records[each.path] = replace(each, cause="detached" if is_detached else unused)
    return _explain_zeros(records, named)


def layer_of_parameters(layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> dict[int, tuple[str, int]]:
    """The stack and the layer, from 0, of every parameter inside the layers, by its id."""
    return {
        id(parameter): (stack, number)
        for stack, modules in layers.items()
        for number, layer in enumerate(modules)
        for module in layer
        for parameter in module.parameters()
    }


def _layers_that_did_not_run(
    layers: Mapping[str, Sequence[Sequence[nn.Module]]], ran: Collection[nn.Module]
) -> set[tuple[str | None, int | None]]:
    """The layers of which no module was called, as those that layer-drop leaves out."""
    return {
        (stack, number)
        for stack, modules in layers.items()
        for number, layer in enumerate(modules)
        if not any(inner in ran for module in layer for inner in module.modules())
    }


def _nonzero(tensors: Mapping[str, Tensor | None]) -> dict[str, bool]:
    """Whether a tensor is there and has a number that is not zero, with one transfer from the device.

    A sharded tensor counts as one that has.
    """
    sharded = {path: True for path, each in tensors.items() if isinstance(each, DTensor)}
    flags = {
        path: _has_nonzero(each.coalesce().values() if each.is_sparse else each)
        for path, each in tensors.items()
        if each is not None and path not in sharded
    }
    if not flags:
        return dict.fromkeys(tensors, False) | sharded
    first = next(iter(flags.values()))
    found = torch.stack([flag.to(first.device) for flag in flags.values()]).tolist()
    return dict.fromkeys(tensors, False) | sharded | dict(zip(flags, found, strict=True))


def _has_nonzero(tensor: Tensor) -> Tensor:
    """Whether any number is not zero; NaN counts. The largest number is found several times faster than by `any`."""
    return torch.linalg.vector_norm(tensor, inf) != 0 if tensor.is_floating_point() and tensor.numel() else tensor.any()


def _ran(model: nn.Module, path: str, ran: Collection[nn.Module]) -> bool:
    try:
        return model.get_submodule(path) in ran
    except AttributeError:  # a parameter of the model itself
        return True


def _detached(
    named: Mapping[str, nn.Parameter], missing: Sequence[ParameterRecord], run: Callable[[], Tensor]
) -> Iterator[str]:
    """The parameters on which the loss depends, tested together first, then by layer or module."""
    if not missing:
        return
    before = run()
    if not bool(torch.isfinite(before).all()):
        return  # whether a loss that is not finite changes cannot be told
    groups: dict[tuple[str | None, int | None, str], list[str]] = defaultdict(list)
    for each in missing:
        groups[each.stack, each.layer, "" if each.layer is not None else each.module].append(each.path)
    if not _changes([named[each.path] for each in missing], before, run):
        return
    for paths in groups.values():
        if len(groups) == 1 or _changes([named[path] for path in paths], before, run):
            yield from paths


def _probably_used(records: Collection[ParameterRecord]) -> set[str]:
    """Without a loss to compute again: parameters below a layer that has a gradient, and those before all layers."""
    highest: dict[str | None, int] = {}
    for each in records:
        if each.cause is None and each.layer is not None:
            highest[each.stack] = max(each.layer, highest.get(each.stack, 0))
    missing = [each for each in records if each.cause == "without effect"]
    inside = {each.path for each in missing if each.layer is not None and each.layer < highest.get(each.stack, 0)}
    return inside | {each.path for each in missing if inside and each.layer is None}


def _changes(parameters: Sequence[nn.Parameter], before: Tensor, run: Callable[[], Tensor]) -> bool:
    with _moved(parameters):
        return not torch.equal(run(), before)


@contextmanager
def _moved(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Change parameters at random by a few percent; afterwards they have the same bits as before."""
    before = [each.detach().clone() for each in parameters]
    try:
        with torch.no_grad():
            for each in parameters:
                size = each.float().square().mean().sqrt()
                each.add_((CHANGE * torch.where(size > 0, size, 1.0)).to(each) * torch.randn_like(each))
        yield
    finally:
        with torch.no_grad():
            for each, value in zip(parameters, before, strict=True):
                each.copy_(value)


def _explain_zeros(records: Mapping[str, ParameterRecord], named: Mapping[str, nn.Parameter]) -> list[ParameterRecord]:
    """Name the parameter that is zero, where a gradient is zero and there is such a parameter."""
    if not any(each.cause == "zero gradient" for each in records.values()):
        return list(records.values())
    is_filled = _nonzero({path: each.detach() for path, each in named.items()})
    zeros = [each for path, each in records.items() if not is_filled[path] and not ADDED.search(_last(path))]
    order = {path: number for number, path in enumerate(records)}

    def explain(each: ParameterRecord) -> ParameterRecord:
        others = [zero for zero in zeros if zero.path != each.path]
        inside = [zero for zero in others if (zero.stack, zero.layer) == (each.stack, each.layer)]
        above = [zero for zero in others if order[zero.path] > order[each.path]]
        chosen = _nearest(each.path, inside if each.layer is not None and inside else above)
        if each.cause != "zero gradient" or chosen is None:
            return each
        return replace(each, cause="zero gain" if chosen.is_gain else "zero-initialised", because_of=chosen.path)

    return [explain(each) for each in records.values()]


def _nearest(path: str, others: Iterable[ParameterRecord]) -> ParameterRecord | None:
    """The one that shares most of its path; of several, the first."""
    parts = path.split(".")

    def shared(other: ParameterRecord) -> int:
        same = [one == two for one, two in zip(parts, other.path.split("."), strict=False)]
        return same.index(False) if False in same else len(same)

    return max(others, key=shared, default=None)


def _last(path: str) -> str:
    return path.rpartition(".")[2]
