"""Spectral norm of the Jacobian of every norm, and what its input's size says it should be.

    ‖∂LN(x)/∂x‖₂  against  √d ÷ ‖x − mean(x)‖,  and √d ÷ ‖x‖ beside it

Xiong et al. 2020, Lemma 3: the larger its input, the more a norm shrinks the gradient. For gain 1 and vanishing eps the
first is exact in any width above two. The norm is found by power iteration on JᵀJ of the module itself, at a few
positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.line import fit_logarithms
from lamina.diagnosis.measures.reading import NotMeasurable, positions, stacks_of
from lamina.diagnosis.recording.records import Record
from lamina.diagnosis.results import Measure, Series

POSITIONS, ITERATIONS = 16, 20
MEASURE = Measure(
    key="norm-jacobian",
    title="How much the norms shrink the gradient",
    formula="‖∂LN(x)/∂x‖₂ against √d ÷ ‖x − mean(x)‖",
    source="Xiong et al. 2020, Lemma 3",
    look_for="Values far below 1 in many norms on top of each other make gradients vanish in post-LN; in pre-LN they "
    "fall with depth because the stream grows, and layers become the identity. Broken: Lemma 3.",
    x_label="norm",
    y_label="spectral norm",
    log_y=True,
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def conclude(measure: Measure) -> Measure:
    """Adds the power of the norm's number with which the spectral norm goes: about −1/2 in pre-LN."""
    powers = {f"{line.label} power": fit_logarithms(line.x, line.y).slope for line in measure.measured}
    return measure.model_copy(update={"facts": powers})


def _take(record: Record) -> Measure:
    stacks = [stack for stack in stacks_of(record) if stack.norms]
    if not stacks:
        raise NotMeasurable("the stacks have no norms")
    measured, theory = [], []
    for stack in stacks:
        places = tuple(range(1, len(stack.norms) + 1))
        inputs = [_few(positions(stack, norm.input)) for norm in stack.norms]
        found = [spectral_norms(norm.module, x).mean().item() for norm, x in zip(stack.norms, inputs, strict=True)]
        centred = [_expected(x - x.mean(-1, keepdim=True)) for x in inputs]
        measured.append(Series(label=stack.name, x=places, y=tuple(found)))
        theory.append(Series(label=f"{stack.name} √d/‖x − mean‖", x=places, y=tuple(centred), dashes=True))
        plain = tuple(_expected(x) for x in inputs)
        theory.append(Series(label=f"{stack.name} √d/‖x‖", x=places, y=plain, dashes=True))
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory)})


def _few(x: Tensor) -> Tensor:
    return x[:: -(-len(x) // POSITIONS)]


def _expected(x: Tensor) -> float:
    """√d ÷ ‖x‖, the mean over positions."""
    return (x.shape[-1] ** 0.5 / x.norm(dim=-1)).mean().item()


def spectral_norms(norm: nn.Module, x: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """‖∂norm(x)/∂x‖₂ at every position of x, (positions, dim). A norm treats each position by itself."""
    x = x.to(next(norm.parameters(), x).dtype).detach().requires_grad_()
    vector = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    with torch.enable_grad():
        y = norm(x)
        anywhere = torch.zeros_like(y, requires_grad=True)
        (pulled,) = torch.autograd.grad(y, x, anywhere, create_graph=True)  # Jᵀu, so that its derivative by u gives J
    for _ in range(iterations):
        (pushed,) = torch.autograd.grad(pulled, anywhere, _unit(vector), retain_graph=True)
        (vector,) = torch.autograd.grad(y, x, pushed, retain_graph=True)
    return vector.norm(dim=-1).sqrt()  # ‖JᵀJv‖ for a unit vector v


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.norm(dim=-1, keepdim=True)
