"""Gradient of every sub-layer's matrices, split by the stream through which it comes.

    ∂L/∂w_k = Σ_s (∂L/∂w_k)_s,  (…)_s with the output of the stack made from stream s alone, the others held fixed

Xie et al. 2023, equations 4 and 5: in ResiDual the part through x rules at the top, the part through the dual stream at
the bottom, where it is a floor under the gradient. It takes a pass per stream, so it is measured on a model, not on a
record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import hypot
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.own import own_stacks, stack_name
from lamina.diagnosis.recording.passes import Pass, random_state_kept
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Series
from lamina.model.stack import Stack

MEASURE = Measure(
    key="gradient-by-stream",
    title="Gradient by the stream it comes through",
    formula="‖(∂L/∂w_k) through each stream‖",
    source="Xie et al. 2023, equations 4 and 5",
    look_for="The stream that lies on top at the left is the one that keeps the lowest layers trained.",
    x_label="sub-layer",
    y_label="gradient norm",
    log_y=True,
)


def take(model: nn.Module, run: Pass) -> Measure:
    measured = []
    for path, stack in own_stacks(model):
        if not any(_trained_weights(stack)):
            continue
        parts = {name: split(model, run, stack, number) for number, name in enumerate(stack.residual.streams)}
        parts = {name: gradients for name, gradients in parts.items() if any(map(torch.any, _flat(gradients)))}
        if len(parts) > 1:
            name = stack_name(path)
            measured.append(_line(name, _sum(list(parts.values()))))
            measured += [_line(f"{name} through {stream}", gradients) for stream, gradients in parts.items()]
    if not measured:
        raise NotMeasurable("no stack with known and trained matrices makes its output from more than one stream")
    return MEASURE.model_copy(update={"measured": tuple(measured)})


def split(model: nn.Module, run: Pass, stack: Stack, stream: int) -> list[list[Tensor]]:
    """By sub-layer, the gradients of its trained matrices that come through one stream of the stack.

    Every call sees the same dropout: only so do the parts add up.
    """
    weights = _trained_weights(stack)
    with random_state_kept(), torch.enable_grad(), _only_through(stack, stream):
        loss = run(model)
    if not loss.requires_grad:  # nothing comes through a stream that the end does not read
        return [[torch.zeros_like(weight) for weight in each] for each in weights]
    gradients = iter(torch.autograd.grad(loss, _flat(weights), materialize_grads=True))
    return [[next(gradients) for _ in each] for each in weights]


def _trained_weights(stack: Stack) -> list[list[Tensor]]:
    return [[matrix.weight for matrix in entry.matrices if matrix.weight.requires_grad] for entry in stack.entries]


@contextmanager
def _only_through(stack: Stack, stream: int) -> Iterator[None]:
    """Inside, the stack's end lets gradients into one stream only; of the last one, into all of its parts."""
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
    """Over streams, matrix by matrix."""
    return [[torch.stack(each).sum(0) for each in zip(*matrices, strict=True)] for matrices in zip(*parts, strict=True)]


def _flat(nested: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [each for inner in nested for each in inner]


def _line(label: str, gradients: Sequence[Sequence[Tensor]]) -> Series:
    """Sub-layers whose matrices are frozen have no place on it."""
    norms = {
        number: hypot(*(norm_of(each).item() for each in matrices))
        for number, matrices in enumerate(gradients, start=1)
        if matrices
    }
    return Series(label=label, x=tuple(norms), y=tuple(norms.values()))
