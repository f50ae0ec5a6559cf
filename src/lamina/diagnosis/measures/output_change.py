"""How far the output moves when all weight matrices move a little, against depth.

    mean over tokens of ‖F(x₀, W) − F(x₀, W + δ)‖²,  F the first stack with its final norm, without dropout

Liu et al. 2020, figure 4. δ is ±1e-4 of random sign (`noise`), or one step of Adam at the rate 1e-6 (`step`); larger
ones saturate. By their Theorem 2 the change is C·Σβᵢᵢ²: linear in the number n of sub-layers in post-LN (Corollary 2),
and in ln n in pre-LN (Corollary 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.averaging import average, with_spread
from lamina.diagnosis.measures.gradient_against_depth import Factory
from lamina.diagnosis.measures.line import fit
from lamina.diagnosis.recording.taps import norm_of
from lamina.diagnosis.results import Measure, Series
from lamina.residual.base import Placement

NOISE, RATE = 1e-4, 1e-6
Move = Callable[[nn.Module, Sequence[nn.Parameter]], None]
"""Changes the weights of a model in place."""
MEASURE = Measure(
    key="output-change",
    title="Change of the output when all weights move a little",
    formula="E‖F(x₀, W) − F(x₀, W + δ)‖²",
    source="Liu et al. 2020, figure 4, Corollaries 1 and 2",
    look_for="A straight line means amplification: the deeper, the more every update shakes the output, and training "
    "diverges. A curve that flattens is stable. Broken: the best line in n (post-LN) or ln n (pre-LN).",
    x_label="sub-layers",
    y_label="mean squared change",
)


def against_depth(
    factory: Factory,
    output: Callable[[nn.Module], Tensor],
    weights: Callable[[nn.Module], Sequence[nn.Parameter]],
    seeds: Sequence[int],
    depths: Sequence[int],
    *,
    sublayers_per_layer: int,
    placement: Placement | None = None,
    move: Move | None = None,
    label: str = "noise",
) -> Measure:
    """
    output: what a model's first stack gives for the batch, at real positions, (…, dim).
    weights: its weight matrices.
    move: how they are moved; without it by ±1e-4 of random sign.
    """
    places = tuple(depth * sublayers_per_layer for depth in depths)
    samples = []
    for seed in seeds:
        found = []
        for depth in depths:
            model = factory(seed, depth)
            found.append(change(model, output, weights(model), move or random_signs(seed)))
        samples.append(MEASURE.model_copy(update={"measured": (Series(label=label, x=places, y=tuple(found)),)}))
    return with_spread(conclude(average(samples), placement), [conclude(each, placement) for each in samples])


def conclude(measure: Measure, placement: Placement | None = None) -> Measure:
    """Adds the fits y ~ n and y ~ ln n, and draws the one that belongs to the placement of the norms."""
    facts: dict[str, float] = {}
    theory = []
    for line in measure.measured:
        linear, logarithmic = fit(line.x, line.y), fit(np.log(line.x), line.y)
        facts |= {f"{line.label} R² of n": linear.r_squared, f"{line.label} R² of ln n": logarithmic.r_squared}
        for name, where, best, x in (("n", "post", linear, line.x), ("ln n", "pre", logarithmic, np.log(line.x))):
            if placement == where:
                y = tuple(float(best.intercept + best.slope * each) for each in x)
                theory.append(Series(label=f"{line.label}: best line in {name}", x=line.x, y=y, dashes=True))
    return measure.model_copy(update={"facts": facts, "theory": tuple(theory)})


@torch.no_grad()
def change(
    model: nn.Module, output: Callable[[nn.Module], Tensor], weights: Sequence[nn.Parameter], move: Move
) -> float:
    """The squared distance that the output goes, the mean over tokens. The weights are put back."""
    with _without_dropout(model):
        before, kept = output(model), [weight.clone() for weight in weights]
        try:
            move(model, weights)
            tokens = before.shape[:-1].numel()
            return norm_of(output(model) - before).item() ** 2 / tokens
        finally:
            for weight, old in zip(weights, kept, strict=True):
                weight.copy_(old)


def random_signs(seed: int, size: float = NOISE) -> Move:
    """Every weight goes up or down by the same amount."""

    def move(model: nn.Module, weights: Sequence[nn.Parameter]) -> None:
        generator = torch.Generator().manual_seed(seed)  # on the host: the same signs on every device
        for weight in weights:
            signs = torch.randint(0, 2, weight.shape, generator=generator).mul_(2).sub_(1)
            weight.add_(signs.to(weight), alpha=size)

    return move


def one_step(loss: Callable[[nn.Module], Tensor], rate: float = RATE) -> Move:
    """One step of Adam from its start."""

    def move(model: nn.Module, weights: Sequence[nn.Parameter]) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(loss(model), weights, allow_unused=True)
        optimiser = torch.optim.Adam(weights, lr=rate, betas=(0.9, 0.98))
        kept = [weight.grad for weight in weights]
        _give(weights, gradients)
        optimiser.step()
        _give(weights, kept)

    return move


def _give(weights: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
