"""What is left of the lowest layers' gradient when every trained weight has moved equally far, up or down at random.

    min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖  at  W + m·s,  s = ±1 at random, L the last layer of the stack

Adam moves every weight by about its rate at each step, whatever the gradient, so m grows with the rate. A model may
look well at its start and lose its gradient a little further on: where norms stand in the stream, larger weights make
branches outweigh what they are added to, and every norm then passes less of the gradient on. Where the stream grows
along with its branches, nothing is lost. It takes passes of its own, so it is measured on a model, not on a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf, isfinite, nan

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.gradient_by_layer import norms_by_layer, over_kinds, weakest
from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.passes import Pass, gradients_of
from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.results import Measure, Series

MOVES = (0.01, 0.03, 0.1, 0.3)
MEASURE = Measure(
    key="gradient-when-moved",
    title="The gradient that is left when the weights have moved",
    formula="min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖ at W + m·s, s = ±1 at random",
    source="not in the papers; calibrated with runs in docs/log.md",
    look_for="A line that falls loses the gradient of its lowest layers once training has carried the weights so far. "
    "Adam carries them the further, the higher its rate. On one batch, at two seeds where models are made anew.",
    x_label="how far every weight has moved, m",
    y_label="share of the last layer's",
    log_x=True,
    log_y=True,
)


def take(model: nn.Module, run: Pass) -> Measure:
    """The signs are drawn from the random state of the process. The weights are put back."""
    matrices = find_layers(model).matrices
    weights = list(dict.fromkeys(each.parameter for each in matrices if each.parameter.requires_grad))
    signs = [_random_signs(weight) for weight in weights]
    found = []
    start = over_kinds(norms_by_layer(gradients_of(model, run)))
    with _put_back(weights):
        for before, move in zip((0.0, *MOVES), MOVES, strict=False):
            with torch.no_grad():
                for weight, sign in zip(weights, signs, strict=True):
                    weight.add_(sign, alpha=move - before)
            found.append(over_kinds(norms_by_layer(_gradients(model, run, move))))
    stacks = dict.fromkeys(stack for each in found for stack, layers in each.items() if len(layers) > 1)
    if not stacks:
        raise NotMeasurable("no stack has two layers whose gradients could be compared")
    lines = (Series(label=stack, x=MOVES, y=tuple(_share(each.get(stack, {})) for each in found)) for stack in stacks)
    facts = {f"{stack} at the start": _share(start.get(stack, {})) for stack in stacks}
    return MEASURE.model_copy(update={"measured": tuple(lines), "facts": facts})


def _gradients(model: nn.Module, run: Pass, move: float) -> dict[MatrixName, Tensor]:
    try:
        return gradients_of(model, run)
    except Exception as error:  # whatever guards the model or its loss has: it is we who moved the weights
        raise NotMeasurable(f"with all weights moved by {move} it raised {type(error).__name__}: {error}") from error


def _share(layers: Mapping[int, float]) -> float:
    """Of the weakest layer; NaN where there is nothing to compare, infinite where gradients are not finite any more."""
    if len(layers) < 2:
        return nan
    return weakest(layers).share if all(map(isfinite, layers.values())) else inf


def _random_signs(weight: Tensor) -> Tensor:
    """Drawn on the host: the same on every device."""
    return torch.randint(0, 2, weight.shape, dtype=torch.int8).mul_(2).sub_(1).to(weight.device)


@contextmanager
def _put_back(weights: Sequence[nn.Parameter]) -> Iterator[None]:
    kept = [weight.detach().clone() for weight in weights]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, kept, strict=True):
                weight.copy_(old)
