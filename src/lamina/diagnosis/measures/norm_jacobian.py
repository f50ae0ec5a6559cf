"""Spectral norm of the Jacobian of every norm, and its prediction from the size of the norm's input.

    ‖∂LN(x)/∂x‖₂  against  √d ÷ ‖x − mean(x)‖,  and √d ÷ ‖x‖ beside it

Xiong et al. 2020, Lemma 3: the larger its input, the more a norm shrinks the gradient. For gain 1 and vanishing eps the
first prediction is exact in any width above two. The spectral norm is found by power iteration on JᵀJ of the module
itself, at a few positions. Fact: `power`, of the norm's number, with which the spectral norm changes (about −1/2 in
pre-LN).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Axes, Fact, Location, Measurement, Series
from lamina.diagnosis.measures.base import POWER, Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.reading import positions, stacks_of
from lamina.diagnosis.measures.statistics import fit_power

POSITIONS, ITERATIONS = 16, 20


class NormJacobian(Measure):
    title = "How much the norms shrink the gradient"
    formula = "‖∂LN(x)/∂x‖₂ against √d ÷ ‖x − mean(x)‖"
    source = "Xiong et al. 2020, Lemma 3"
    look_for = (
        "Values far below 1 in many successive norms make gradients vanish in post-LN; in pre-LN they fall with depth "
        "because the stream grows, and layers become the identity. Dashed: Lemma 3."
    )
    axes = Axes(x="norm", y="spectral norm", log_y=True)
    needs = ("record",)
    position = 50

    def take(self, evidence: Evidence) -> Measurement:
        stacks = [stack for stack in stacks_of(require(evidence.record)) if stack.norms]
        if not stacks:
            raise NotMeasurable("the stacks have no norms")
        measured, predicted = [], []
        for stack in stacks:
            location, places = Location(stack=stack.name), tuple(range(1, len(stack.norms) + 1))
            inputs = [_few(positions(stack, norm.input)) for norm in stack.norms]
            found = [spectral_norms(norm.module, x).mean().item() for norm, x in zip(stack.norms, inputs, strict=True)]
            measured.append(Series(location=location, x=places, y=tuple(found)))
            centred = tuple(_expected(x - x.mean(-1, keepdim=True)) for x in inputs)
            plain = tuple(_expected(x) for x in inputs)
            for quantity, y in (("√d ÷ ‖x − mean‖", centred), ("√d ÷ ‖x‖", plain)):
                predicted.append(Series(location=location, quantity=quantity, role="predicted", x=places, y=y))
        return self.measurement([*measured, *predicted])

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = [
            Fact(name=POWER, location=each.location, value=fit_power(each.x, each.y).slope)
            for each in measurement.measured
        ]
        return measurement.model_copy(update={"facts": tuple(facts)})


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
