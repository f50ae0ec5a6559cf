"""The gradient of the weakest layer after every trained weight has moved equally far, up or down at random.

    min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖  at  W + m·s,  s = ±1 at random, L the last layer of the stack

Adam moves every weight by about its learning rate at each step, whatever the gradient, so m grows with the learning
rate. The gradient may be large at initialisation and vanish after a few updates: if norms are applied to the stream,
larger weights make the branches larger than the stream they are added to, and every norm then reduces the gradient. If
the stream grows together with its branches, the gradient is kept. Fact of each stack: `unmoved`, the ratio before any
move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf, isfinite, nan

import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.layer_gradients import norms_by_layer, norms_over_kinds, weakest_layer
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import Pass, gradients_of
from lamina.diagnosis.recording.records import MatrixName

MOVES = (0.01, 0.03, 0.1, 0.3)

UNMOVED = FactName("unmoved")


class GradientWhenMoved(Measure):
    title = "Gradient of the weakest layer after the weights have moved"
    formula = "min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖ at W + m·s, s = ±1 at random"
    source = "not in the papers; calibrated with runs, see the experiments in the docs"
    look_for = (
        "A line that falls shows a model whose lowest layers lose their gradient once training has moved the weights "
        "that far. Adam moves them further at a higher learning rate. Taken on one batch, and at two seeds if models "
        "are built for each seed."
    )
    axes = Axes(
        x="distance that every weight has moved, m", y="share of the last layer's gradient", log_x=True, log_y=True
    )
    needs = ("model",)
    quick = False
    max_seeds = 2
    position = 100

    def take(self, evidence: Evidence) -> Measurement:
        """Measure with signs drawn from the random state of the process; the weights are restored."""
        model, run = require(evidence.model), evidence.passes[0]
        matrices = find_layers(model).matrices
        weights = list(dict.fromkeys(each.parameter for each in matrices if each.parameter.requires_grad))
        signs = [_random_signs(weight) for weight in weights]
        found = []
        start = norms_over_kinds(norms_by_layer(gradients_of(model, run)))
        with _restored(weights):
            for before, move in zip((0.0, *MOVES), MOVES, strict=False):
                with torch.no_grad():
                    for weight, sign in zip(weights, signs, strict=True):
                        weight.add_(sign, alpha=move - before)
                found.append(norms_over_kinds(norms_by_layer(_gradients(model, run, move))))
        stacks = dict.fromkeys(stack for each in found for stack, layers in each.items() if len(layers) > 1)
        if not stacks:
            raise NotMeasurable("no stack has two layers whose gradients could be compared")
        series, facts = [], []
        for stack in stacks:
            location, y = Location(stack=stack), tuple(_share(each.get(stack, {})) for each in found)
            series.append(Series(location=location, x=MOVES, y=y))
            facts.append(Fact(name=UNMOVED, location=location, value=_share(start.get(stack, {}))))
        return self.measurement(series, facts=facts)


def _gradients(model: nn.Module, run: Pass, move: float) -> dict[MatrixName, Tensor]:
    try:
        return gradients_of(model, run)
    except Exception as error:  # a model or a loss may refuse such weights, and it was this measure that moved them
        raise NotMeasurable(f"with all weights moved by {move} it raised {type(error).__name__}: {error}") from error


def _share(layers: Mapping[int, float]) -> float:
    """The weakest layer's share; NaN with fewer than two layers to compare, infinite if a gradient is not finite."""
    if len(layers) < 2:
        return nan
    return weakest_layer(layers).share if all(map(isfinite, layers.values())) else inf


def _random_signs(weight: Tensor) -> Tensor:
    """Random signs, drawn on the CPU, so that they are the same on every device."""
    return torch.randint(0, 2, weight.shape, dtype=torch.int8).mul_(2).sub_(1).to(weight.device)


@contextmanager
def _restored(weights: Sequence[nn.Parameter]) -> Iterator[None]:
    saved = [weight.detach().clone() for weight in weights]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(weights, saved, strict=True):
                weight.copy_(value)
