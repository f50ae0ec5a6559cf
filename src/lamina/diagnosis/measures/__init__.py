"""One file per quantity: pure functions with the formula and the figure of the paper they make.

A quantity's file is its key with `_` for `-`. It holds `MEASURE`, the quantity before any number is known, and `take`,
which measures one model from its records, one per mini-batch. Some also have `conclude`: what follows from the mean
over seeds, such as slopes. Those that compare several models, or watch one in training, are called by name:
`gradient_against_depth`, `output_change`, `gradient_by_stream`, `gradient_when_moved`, `matrix_updates`,
`adam_conditioning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from lamina.diagnosis.measures import (
    added_block,
    cosine_of_layers,
    gradient_along_stream,
    gradient_at_norms,
    gradient_by_layer,
    hidden_change,
    layer_dependency,
    norm_jacobian,
    stream_norms,
)
from lamina.diagnosis.measures.averaging import average, with_spread
from lamina.diagnosis.measures.reading import NotMeasurable
from lamina.diagnosis.recording.records import Record
from lamina.diagnosis.results import Measure, Skipped

__all__ = ["BY_BATCH", "QUANTITIES", "NotMeasurable", "average_all", "combine", "conclude_all", "take_all"]

BY_BATCH: tuple[ModuleType, ...] = (
    gradient_along_stream,
    gradient_at_norms,
    stream_norms,
    norm_jacobian,
    hidden_change,
    added_block,
    cosine_of_layers,
    layer_dependency,
)
"""Means over batches, which can be taken of each batch alone."""
QUANTITIES = (gradient_by_layer, *BY_BATCH)
"""Those that records alone are enough for, in the order of a report."""


def take_all(
    records: Sequence[Record], quantities: Sequence[ModuleType] = QUANTITIES
) -> tuple[list[Measure], list[Skipped]]:
    """Everything that the records of one model can tell, and what they cannot."""
    measures, skipped = [], []
    for quantity in quantities:
        try:
            measures.append(quantity.take(records))
        except NotMeasurable as reason:
            skipped.append(Skipped(key=quantity.MEASURE.key, reason=str(reason)))
    return measures, skipped


def average_all(samples: Sequence[Sequence[Measure]]) -> tuple[list[Measure], list[Skipped]]:
    """The mean of every quantity over the samples that have it, and what has no mean."""
    means, skipped = [], []
    for key in dict.fromkeys(measure.key for sample in samples for measure in sample):
        try:
            means.append(average([each for sample in samples for each in sample if each.key == key]))
        except NotMeasurable as reason:
            skipped.append(Skipped(key=key, reason=str(reason)))
    return means, skipped


def conclude_all(measures: Sequence[Measure]) -> list[Measure]:
    """With what follows from the numbers of each, such as slopes."""
    conclusions = {quantity.MEASURE.key: getattr(quantity, "conclude", None) for quantity in QUANTITIES}
    return [conclude(each) if (conclude := conclusions.get(each.key)) else each for each in measures]


def combine(whole: Sequence[Measure], samples: Sequence[Sequence[Measure]], scale: float = 1.0) -> list[Measure]:
    """The measures of the whole, with what follows from them, and the standard deviations over samples × `scale`."""
    concluded = [conclude_all(sample) for sample in samples]
    return [
        with_spread(each, [other for sample in concluded for other in sample if other.key == each.key], scale)
        for each in conclude_all(whole)
    ]
