"""The range of every module's input, output and gradient in one pass, and the first of them that is not finite.

    with RangeRecorder(model, layers) as recorder:
        loss(model(…)).backward()
    recorder.ranges, recorder.first_non_finite(loss)

Only the largest absolute values are computed, one number for each tensor; they are read from the device at the end.
The order is that of the computation: a module comes after the modules inside it, and in the backward pass the module
nearest to the loss comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from lamina.diagnosis.measurement import Location

NonFiniteKind = Literal["output", "gradient", "parameter gradient", "loss"]
"""Which value of a module is not finite; `loss` where all outputs are finite and the loss is not."""


@dataclass(eq=False)
class ModuleRange:
    """One call of a module: the largest absolute values of its input, its output and the output's gradient."""

    path: str
    stack: str | None
    layer: int | None
    """From 0; None outside the repeated layers."""
    input: float | None
    """None where there was no input of floating point, as of an embedding."""
    output: float
    limit: float
    """The largest number of the output's precision: 65,504 for fp16."""
    gradient: float | None = None
    """None where no gradient arrived."""

    @property
    def location(self) -> Location:
        return Location(stack=self.stack, layer=None if self.layer is None else self.layer + 1, module=self.path)


@dataclass(frozen=True)
class NonFinite:
    """The first value of a pass that is not finite, in the order of the forward and then the backward pass."""

    kind: NonFiniteKind
    location: Location
    input: float | None
    """The largest absolute value of the module's input; not finite if the fault lies before the module; None where it
    has no input of floating point."""
    parameters: float
    """The largest absolute value of the module's own parameters; 0 where it has none."""
    limit: float
    """The largest number of the output's precision."""


class RangeRecorder:
    """Records the ranges by hooks on all modules, while it is open."""

    def __init__(self, model: nn.Module, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> None:
        """layers: for every stack the modules of every layer."""
        self.model = model
        self.ranges: list[ModuleRange] = []
        """Every call of a module, in the order in which the calls ended; filled in when the recorder is closed."""
        self.ran: set[nn.Module] = set()
        """The modules that were called."""
        self._place = {
            inner: (stack, number)
            for stack, modules in layers.items()
            for number, layer in enumerate(modules)
            for module in layer
            for inner in module.modules()
        }
        self._hooks = ExitStack()
        self._values: list[tuple[ModuleRange, Tensor | None, Tensor]] = []
        self._gradients: list[tuple[ModuleRange, Tensor]] = []

    def __enter__(self) -> Self:
        for path, module in self.model.named_modules():
            handle = module.register_forward_hook(partial(self._leave, path), with_kwargs=True)
            self._hooks.callback(handle.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hooks and read the numbers."""
        self._hooks.close()
        inputs = iter(_fetch([each for _, each, _ in self._values if each is not None]))
        outputs = _fetch([each for _, _, each in self._values])
        for (found, given, _), output in zip(self._values, outputs, strict=True):
            found.input, found.output = None if given is None else next(inputs), output
        for (found, _), gradient in zip(self._gradients, _fetch([each for _, each in self._gradients]), strict=True):
            found.gradient = gradient
        self.ranges += [found for found, _, _ in self._values]
        self._values.clear()

    def first_non_finite(self, loss: Tensor | None = None, bad: Collection[str] | None = None) -> NonFinite | None:
        """The first value that is not finite: of the outputs, the loss, the outputs' gradients, the parameters'.

        bad: the modules whose parameters have gradients that are not finite; None if these are to be examined.
        """
        found = next((each for each in self.ranges if not isfinite(each.output)), None)
        if found is not None:
            return self._describe("output", found)
        if loss is not None and not bool(torch.isfinite(loss).all()):
            read = self.ranges[-1].output if self.ranges else None
            return NonFinite("loss", Location(), read, 0.0, torch.finfo(loss.dtype).max)
        for found, _ in self._gradients:
            if found.gradient is not None and not isfinite(found.gradient):
                return self._describe("gradient", found)
        bad = self._bad_modules() if bad is None else bad
        found = next((each for each in reversed(self.ranges) if each.path in bad), None)
        return None if found is None else self._describe("parameter gradient", found)

    def _bad_modules(self) -> set[str]:
        """The modules with a parameter whose gradient is not finite."""
        named = [(path, each.grad) for path, each in self.model.named_parameters() if each.grad is not None]
        largest = _fetch([largest_value(each) for _, each in named])
        return {path.rpartition(".")[0] for (path, _), each in zip(named, largest, strict=True) if not isfinite(each)}

    def _describe(self, kind: NonFiniteKind, found: ModuleRange) -> NonFinite:
        own = [*self.model.get_submodule(found.path).parameters(recurse=False)]
        largest = max(_fetch([largest_value(each) for each in own]), default=0.0, key=_badness)
        return NonFinite(kind, found.location, found.input, largest, found.limit)

    def _leave(self, path: str, module: nn.Module, arguments: Any, options: Mapping[str, Any], output: Any) -> None:
        # Activation checkpointing runs modules again inside the backward pass.
        if torch._C._current_graph_task_id() != -1:
            return
        self.ran.add(module)
        result = first_floating(output)
        if result is None:
            return
        given = first_floating((*arguments, *options.values()))
        stack, layer = self._place.get(module, (None, None))
        found = ModuleRange(path, stack, layer, None, nan, torch.finfo(result.dtype).max)
        self._values.append((found, None if given is None else largest_value(given), largest_value(result)))
        if result.requires_grad and torch.is_grad_enabled():
            result.register_hook(partial(self._add_gradient, found))  # type: ignore[no-untyped-call]

    def _add_gradient(self, found: ModuleRange, gradient: Tensor) -> None:
        self._gradients.append((found, largest_value(gradient)))


def largest_value(tensor: Tensor) -> Tensor:
    """max |x| as a tensor; NaN if any number is NaN."""
    values = tensor.detach()
    values = values.to_local() if isinstance(values, DTensor) else values
    if not values.numel():
        return values.new_zeros(())
    values = values.coalesce().values() if values.is_sparse else values
    return torch.linalg.vector_norm(values, ord=torch.inf)


def first_floating(values: Any) -> Tensor | None:
    """The first tensor of floating point that is not empty among the arguments or outputs of a module."""
    if isinstance(values, Tensor):
        return values if values.is_floating_point() and values.numel() else None
    parts: Iterable[Any] = values.values() if isinstance(values, Mapping) else values
    if not isinstance(values, tuple | list | Mapping):
        return None
    return next((found for each in parts if (found := first_floating(each)) is not None), None)


def _fetch(numbers: Sequence[Tensor]) -> list[float]:
    """The values of scalar tensors with one transfer from the device; of sharded tensors, those of this process."""
    if not numbers:
        return []
    device = numbers[0].device
    precision = torch.float32 if device.type == "mps" else torch.float64
    return torch.stack([each.to(device, precision) for each in numbers]).tolist()


def _badness(value: float) -> float:
    """Orders values by size, with those that are not finite last."""
    return abs(value) if isfinite(value) else float("inf")
