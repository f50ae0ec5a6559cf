"""The probes of a watched step: one for the optimiser's step, one for the residual streams of the forward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from lamina.diagnosis.measurement import Location, Measurement
from lamina.diagnosis.measures.adam_conditioning import AdamConditioning
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.recording.matrices import NamedMatrix
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.watching.observation import MatrixObservation, StreamObservation

SMALLEST = 1e-12
"""A norm in single precision below which squares may have been rounded to zero."""


class StepProbe:
    """Measures gradients and updates; made just before the step, it holds a copy of the weights until just after it."""

    def __init__(self, optimiser: Optimizer, matrices: Sequence[NamedMatrix]) -> None:
        self.optimiser = optimiser
        self.groups = {id(parameter): group for group in optimiser.param_groups for parameter in group["params"]}
        self.matrices = [each for each in matrices if id(each.parameter) in self.groups]
        self.before = {id(each.parameter): each.parameter.detach().clone() for each in self.matrices}

    @torch.no_grad()
    def finish(self) -> tuple[MatrixObservation, ...]:
        """Measure after the step, when gradients have been divided by the loss scale."""
        trained: list[NamedMatrix] = []
        measured: list[Callable[[], Tensor]] = []
        for each in self.matrices:
            gradient, before = each.parameter.grad, self.before[id(each.parameter)]
            if gradient is not None and not gradient.is_sparse:
                trained.append(each)
                after = each.parameter.detach()
                measured += [
                    partial(each.of, gradient),
                    partial(each.of, before),
                    partial(_change, each, after, before),
                ]
        numbers = norms_of(measured)
        locations = [each.name.location for each in trained]
        gradient_norms, weight_norms, update_norms = (_joined(locations, numbers[first::3]) for first in range(3))
        learning_rates = {
            location: float(self.groups[id(each.parameter)]["lr"])
            for location, each in zip(locations, trained, strict=True)
        }
        return tuple(
            MatrixObservation(
                location=location,
                gradient_norm=gradient_norms[location],
                update_norm=norm,
                relative_update=norm / weight_norms[location] if weight_norms[location] else None,
                learning_rate=learning_rates[location],
            )
            for location, norm in update_norms.items()
        )

    def conditioning(self) -> tuple[Measurement | None, str]:
        """The conditioning of Adam's update, or the reason why there is none."""
        if any(isinstance(each.parameter, DTensor) for each in self.matrices):
            return None, "the optimiser's state is sharded"
        try:
            return AdamConditioning().of(self.optimiser, self.matrices), ""
        except NotMeasurable as reason:
            return None, str(reason)


class StreamProbe:
    """Measures the residual streams after every layer, by hooks that stay for one step of the optimiser.

    Only passes with gradient count, not a validation between two steps. Of several passes, as in gradient accumulation,
    the last one is kept.
    """

    def __init__(self, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> None:
        """layers: for every stack the modules of every layer."""
        self._depths = {stack: len(modules) for stack, modules in layers.items()}
        self._sizes: dict[str, dict[int, tuple[Tensor, Tensor]]] = {stack: {} for stack in layers}
        self._hooks = ExitStack()
        for stack, modules in layers.items():
            for number, layer in enumerate(modules):
                handle = layer[-1].register_forward_hook(partial(self._measure, stack, number))
                self._hooks.callback(handle.remove)

    def _measure(self, stack: str, number: int, layer: nn.Module, arguments: Any, output: Any) -> None:
        if torch.is_grad_enabled() and (streams := list(_streams(output))):
            with torch.no_grad():
                size = streams[0].float().square().mean().sqrt()
                largest = torch.stack([each.abs().amax().float() for each in streams]).amax()
            self._sizes[stack][number] = size, largest

    def close(self) -> None:
        self._hooks.close()

    def finish(self) -> tuple[StreamObservation, ...]:
        self.close()
        numbers = iter(fetch([each for layers in self._sizes.values() for pair in layers.values() for each in pair]))
        found = {
            stack: {layer: (next(numbers), next(numbers)) for layer in layers} for stack, layers in self._sizes.items()
        }
        return tuple(
            StreamObservation(
                stack=stack,
                root_mean_squares=tuple(layers.get(layer, (nan, nan))[0] for layer in range(self._depths[stack])),
                largest=max(largest for _, largest in layers.values()),
            )
            for stack, layers in found.items()
            if layers
        )


def norms_of(tensors: Sequence[Callable[[], Tensor]]) -> list[float]:
    """The Frobenius norms, with one transfer from the device; a tensor is made when its norm is taken.

    Rows are summed in their own precision and the rows in double precision, which is several times faster than all in
    double precision. Norms so small that their squares may be too small for single precision are taken again.
    """
    found = fetch([_norm_by_rows(tensor()) for tensor in tensors])
    return [
        norm if norm >= SMALLEST else fetch([norm_of(tensor())])[0] for norm, tensor in zip(found, tensors, strict=True)
    ]


def _norm_by_rows(tensor: Tensor) -> Tensor:
    if isinstance(tensor, DTensor) or tensor.dtype != torch.float32:
        return norm_of(tensor)
    return norm_of(torch.linalg.vector_norm(tensor, dim=-1))


def _change(matrix: NamedMatrix, after: Tensor, before: Tensor) -> Tensor:
    return matrix.of(after) - matrix.of(before)


def fetch(numbers: Sequence[Tensor]) -> list[float]:
    """The values of scalar tensors with one transfer from the device; norms of sharded tensors are combined first."""
    whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in numbers]
    if not whole:
        return []
    device = whole[0].device
    precision = torch.float32 if device.type == "mps" else torch.float64
    return torch.stack([each.to(device, precision) for each in whole]).tolist()


def _joined(locations: Sequence[Location], norms: Sequence[float]) -> dict[Location, float]:
    """The norm over all matrices of one location."""
    squares: dict[Location, float] = defaultdict(float)
    for location, norm in zip(locations, norms, strict=True):
        squares[location] += norm**2
    return {location: square**0.5 for location, square in squares.items()}


def _streams(output: Any) -> Iterable[Tensor]:
    """The tensors of a layer's output that can be streams; foreign layers may return caches and weights as well."""
    parts = output.values() if isinstance(output, Mapping) else (output,) if isinstance(output, Tensor) else output
    if not isinstance(parts, Iterable):
        return
    tensors = [each.detach() for each in parts if isinstance(each, Tensor) and each.is_floating_point()]
    yield from (each for each in tensors if each.shape[-1:] == tensors[0].shape[-1:])
