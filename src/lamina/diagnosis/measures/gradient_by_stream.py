"""Gradient of every sub-layer's matrices, split by the residual stream through which it arrives.

    ∂L/∂w_k = Σ_s (∂L/∂w_k)_s,  (…)_s with the output of the stack made from stream s alone, the others held fixed

Xie et al. 2023, equations 4 and 5: in ResiDual the part through x dominates at the top, the part through the dual
stream at the bottom, where it is a lower bound on the gradient. One pass per stream is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import hypot
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Axes, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.own import own_stacks, stack_name
from lamina.diagnosis.recording.passes import Pass, random_state_kept
from lamina.diagnosis.recording.taps import norm_of
from lamina.model.stack import Stack


class GradientByStream(Measure):
    title = "Gradient by the stream it arrives through"
    formula = "‖(∂L/∂w_k) through each stream‖"
    source = "Xie et al. 2023, equations 4 and 5"
    look_for = "The stream with the larger gradient at the left is the one that trains the lowest layers."
    axes = Axes(x="sub-layer", y="gradient norm", log_y=True)
    needs = ("model",)
    quick = False
    position = 110

    def take(self, evidence: Evidence) -> Measurement:
        model, run = require(evidence.model), evidence.passes[0]
        series = []
        for path, stack in own_stacks(model):
            if len(stack.residual.streams) < 2 or not any(_trained_weights(stack)):
                continue
            parts = {name: split(model, run, stack, number) for number, name in enumerate(stack.residual.streams)}
            parts = {name: gradients for name, gradients in parts.items() if any(map(torch.any, _flat(gradients)))}
            if len(parts) > 1:
                name = stack_name(path)
                series.append(_series(Location(stack=name), "total", _sum(list(parts.values()))))
                series += [
                    _series(Location(stack=name, stream=stream), "through", gradients)
                    for stream, gradients in parts.items()
                ]
        if not series:
            raise NotMeasurable("no stack with known and trained matrices makes its output from more than one stream")
        return self.measurement(series)


def split(model: nn.Module, run: Pass, stack: Stack, stream: int) -> list[list[Tensor]]:
    """The gradients of trained matrices that arrive through one stream of the stack, by sub-layer.

    Every call uses the same dropout masks: otherwise the parts would not add up.
    """
    weights = _trained_weights(stack)
    with random_state_kept(), torch.enable_grad(), _only_through(stack, stream):
        loss = run(model)
    if not loss.requires_grad:  # the output of the stack does not depend on this stream
        return [[torch.zeros_like(weight) for weight in each] for each in weights]
    gradients = iter(torch.autograd.grad(loss, _flat(weights), materialize_grads=True))
    return [[next(gradients) for _ in each] for each in weights]


def _trained_weights(stack: Stack) -> list[list[Tensor]]:
    return [
        [*dict.fromkeys(matrix.parameter for matrix in entry.matrices if matrix.parameter.requires_grad)]
        for entry in stack.entries
    ]


@contextmanager
def _only_through(stack: Stack, stream: int) -> Iterator[None]:
    """A context in which the end of the stack passes gradients to one stream only; to all parts of the last stream."""
    residual, last = stack.residual, len(stack.residual.streams) - 1

    def close(state: Any) -> Tensor:
        if isinstance(state, tuple):
            state = tuple(part if min(at, last) == stream else part.detach() for at, part in enumerate(state))
        return type(residual).close(residual, state)

    residual.close = close  # type: ignore[method-assign]
    try:
        yield
    finally:
        del residual.close


def _sum(parts: Sequence[Sequence[Sequence[Tensor]]]) -> list[list[Tensor]]:
    """The sum over streams, matrix by matrix."""
    return [[torch.stack(each).sum(0) for each in zip(*matrices, strict=True)] for matrices in zip(*parts, strict=True)]


def _flat(nested: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [each for inner in nested for each in inner]


def _series(location: Location, quantity: str, gradients: Sequence[Sequence[Tensor]]) -> Series:
    """The series of gradient norms by sub-layer, without sub-layers whose matrices are frozen."""
    norms = {
        number: hypot(*(norm_of(each).item() for each in matrices))
        for number, matrices in enumerate(gradients, start=1)
        if matrices
    }
    return Series(location=location, quantity=quantity, x=tuple(norms), y=tuple(norms.values()))
