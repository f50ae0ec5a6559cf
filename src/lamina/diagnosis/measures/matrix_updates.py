"""Gradients against updates of the attention matrices, by layer.

    ‖∂L/∂W‖ and ‖W′ − W‖ of query, key, value and output matrices, each divided by the largest in the network

Liu et al. 2020, figures 5 and 11: gradients are unbalanced, those of queries and keys far smaller; Adam evens the
updates out. W and W′ are the weights at two moments of training, such as the ends of two epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from statistics import fmean

from torch import Tensor

from lamina.diagnosis.measures.gradient_by_layer import norms_by_layer
from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.cross_attention import CROSS
from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.results import Measure, Series

KINDS = ("query", "key", "value", "output")
UNRECOGNISED = "no query, key, value or output matrix was recognised"
MEASURE = Measure(
    key="matrix-updates",
    title="Gradients against updates of the attention matrices",
    formula="‖∂L/∂W‖ and ‖W′ − W‖, relative to the network's largest",
    source="Liu et al. 2020, figures 5 and 11",
    look_for="Gradients may differ by orders of magnitude; updates should lie close together. Where they do not, the "
    "optimiser does not even them out.",
    x_label="layer",
    y_label="relative norm",
    log_y=True,
)
Norms = Mapping[tuple[str, str], Mapping[int, float]]
"""By stack and kind, then by layer from 0."""


def take(
    gradients: Mapping[MatrixName, Tensor], before: Mapping[MatrixName, Tensor], after: Mapping[MatrixName, Tensor]
) -> Measure:
    """Gradients at some moment, and the weights before and after it."""
    names = [name for name in gradients if name in before and name in after]
    moved = {name: after[name] - before[name] for name in names}
    return relate(norms_by_layer({name: gradients[name] for name in names}), norms_by_layer(moved))


def relate(gradients: Norms, updates: Norms) -> Measure:
    """The same where the norms are known, as to a watch."""
    measured, facts = [], {}
    for label, norms in (("gradient", gradients), ("update", updates)):
        lines = {key: layers for key, layers in norms.items() if key[1].removeprefix(CROSS) in KINDS}
        if not lines:
            raise NotMeasurable(UNRECOGNISED)
        every = [norm for layers in lines.values() for norm in layers.values()]
        largest = max(every) or 1.0
        facts[f"{label} largest/least"] = largest / min(every) if min(every) else float("inf")
        for (stack, kind), layers in lines.items():
            y = tuple(norm / largest for norm in layers.values())
            measured.append(Series(label=f"{stack} {kind} {label}", x=tuple(each + 1 for each in layers), y=y))
    return MEASURE.model_copy(update={"measured": tuple(measured), "facts": facts})


def over_training(moments: Mapping[int, Measure]) -> Measure:
    """The same against the step, every line the mean over its layers."""
    steps = tuple(sorted(moments))
    means = {step: {line.label: fmean(line.y) for line in moments[step].measured} for step in steps}
    labels = dict.fromkeys(label for step in steps for label in means[step])
    lines = [Series(label=label, x=steps, y=tuple(means[step].get(label, nan) for step in steps)) for label in labels]
    facts = moments[steps[-1]].facts
    return MEASURE.model_copy(update={"measured": tuple(lines), "facts": facts, "x_label": "step"})
