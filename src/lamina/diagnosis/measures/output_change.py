"""How far the output moves when all weight matrices move a little, against depth.

    mean over tokens of ‖F(x₀, W) − F(x₀, W + δ)‖²,  F the first stack with its final norm, without dropout

Liu et al. 2020, figure 4, with δ = ±1e-4 of random sign; larger ones saturate. By their Theorem 2 the change is
C·Σβᵢᵢ²: linear in the number n of sub-layers in post-LN (Corollary 2), and in ln n in pre-LN (Corollary 1). Facts:
`R² of n` and `R² of ln n`, of the two least-squares lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Axes, Fact, FactName, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Factory, Measure, require
from lamina.diagnosis.measures.reading import positions
from lamina.diagnosis.measures.statistics import average, fit, with_spread
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.own import own_stacks
from lamina.diagnosis.recording.passes import Pass, recording
from lamina.diagnosis.recording.taps import norm_of
from lamina.model.modes import evaluation_mode
from lamina.residual.base import Placement

NOISE = 1e-4
SEEDS = (1, 2)  # few, because the mean over the tokens of one batch hardly varies
WeightChange = Callable[[nn.Module, Sequence[nn.Parameter]], None]
"""Changes the weights of a model in place."""

LINEAR_R_SQUARED = FactName("R² of n")
LOGARITHMIC_R_SQUARED = FactName("R² of ln n")


class OutputChange(Measure):
    title = "Change of the output when all weights move a little"
    formula = "E‖F(x₀, W) − F(x₀, W + δ)‖²"
    source = "Liu et al. 2020, figure 4, Corollaries 1 and 2"
    look_for = (
        "A straight line shows amplification: the deeper the model, the more every update changes the output, and "
        "training diverges. A curve that flattens is stable. Dashed: the best line in n (post-LN) or ln n (pre-LN)."
    )
    axes = Axes(x="sub-layers", y="mean squared change")
    needs = ("factory",)
    quick = False
    position = 210

    def take(self, evidence: Evidence) -> Measurement:
        structure, run = require(evidence.structure), evidence.passes[0]
        return self.against_depth(
            require(evidence.factory),
            lambda model: first_output(run, model),
            first_matrices,
            depths=sorted(set(evidence.depths)),
            sublayers_per_layer=structure.sublayers_per_layer,
            placement=next(iter(structure.placements.values())),
        )

    def against_depth(
        self,
        factory: Factory,
        output: Callable[[nn.Module], Tensor],
        weights: Callable[[nn.Module], Sequence[nn.Parameter]],
        seeds: Sequence[int] = SEEDS,
        *,
        depths: Sequence[int],
        sublayers_per_layer: int,
        placement: Placement | None = None,
        move: WeightChange | None = None,
        quantity: str = "noise",
    ) -> Measurement:
        """Measure the change at every depth, as the mean over seeds.

        output: the output of a model's first stack for the batch, at real positions, (…, dim).
        weights: the weight matrices of that stack.
        move: changes the weights; by default by ±1e-4 of random sign.
        quantity: the name of that change.
        """
        places = tuple(depth * sublayers_per_layer for depth in depths)
        samples = []
        for seed in seeds:
            found = []
            for depth in depths:
                model = factory(seed, depth)
                found.append(change(model, output, weights(model), move or random_signs(seed)))
            samples.append(self.measurement([Series(quantity=quantity, x=places, y=tuple(found))]))
        return with_spread(_concluded(average(samples), placement), [_concluded(each, placement) for each in samples])


def _concluded(measurement: Measurement, placement: Placement | None) -> Measurement:
    """The measurement with the fits y ~ n and y ~ ln n, and the line predicted for the placement of the norms."""
    facts, predicted = [], []
    for line in measurement.measured:
        linear, logarithmic = fit(line.x, line.y), fit(np.log(line.x), line.y)
        facts.append(Fact(name=LINEAR_R_SQUARED, quantity=line.quantity, value=linear.r_squared))
        facts.append(Fact(name=LOGARITHMIC_R_SQUARED, quantity=line.quantity, value=logarithmic.r_squared))
        for name, where, best, x in (("n", "post", linear, line.x), ("ln n", "pre", logarithmic, np.log(line.x))):
            if placement == where:
                y = tuple(float(best.intercept + best.slope * each) for each in x)
                predicted.append(Series(quantity=f"line in {name}", role="predicted", x=line.x, y=y))
    return measurement.model_copy(update={"facts": tuple(facts), "series": (*measurement.measured, *predicted)})


@torch.no_grad()
def change(
    model: nn.Module, output: Callable[[nn.Module], Tensor], weights: Sequence[nn.Parameter], move: WeightChange
) -> float:
    """The squared distance that the output moves, the mean over tokens. The weights are restored."""
    with evaluation_mode(model):
        before, saved = output(model), [weight.clone() for weight in weights]
        try:
            move(model, weights)
            tokens = before.shape[:-1].numel()
            return norm_of(output(model) - before).item() ** 2 / tokens
        finally:
            for weight, value in zip(weights, saved, strict=True):
                weight.copy_(value)


def random_signs(seed: int, size: float = NOISE) -> WeightChange:
    """Moves every weight up or down by the same amount."""

    def move(model: nn.Module, weights: Sequence[nn.Parameter]) -> None:
        generator = torch.Generator().manual_seed(seed)  # on the CPU: the same signs on every device
        for weight in weights:
            signs = torch.randint(0, 2, weight.shape, generator=generator).mul_(2).sub_(1)
            weight.add_(signs.to(weight), alpha=size)

    return move


def first_matrices(model: nn.Module) -> Sequence[nn.Parameter]:
    """The weight matrices of the first stack, each once."""
    found = find_layers(model)
    first = next(iter(found.layers))
    return list(dict.fromkeys(each.parameter for each in found.matrices if each.name.stack == first))


class _FirstStackDone(Exception):
    """Ends a pass after the first stack: the rest is not needed."""


def first_output(run: Pass, model: nn.Module) -> Tensor:
    """The output of the first stack, with its final norm, at real positions."""
    stacks = own_stacks(model)
    if not stacks:
        with recording(model) as recorder:
            run(model)
        return positions(recorder.stacks[0], recorder.stacks[0].output)
    outputs: list[Tensor] = []

    def stop(stack: nn.Module, arguments: object, output: Tensor) -> None:
        outputs.append(output)
        raise _FirstStackDone

    handle = stacks[0][1].register_forward_hook(stop)
    try:
        with torch.no_grad():
            run(model)
    except _FirstStackDone:
        pass
    finally:
        handle.remove()
    return outputs[0].flatten(0, -2)
