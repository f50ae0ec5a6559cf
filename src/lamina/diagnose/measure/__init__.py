"""One file per quantity: pure functions with the formula and the figure of the paper they make.

A quantity's file is its key with `_` for `-`. It holds `MEASURE`, the quantity before any number is known, and `take`,
which measures one model from its records, one per mini-batch. Some also have `conclude`: what follows from the mean
over seeds, such as slopes. Those that compare several models, or watch one in training, are called by name:
`gradient_against_depth`, `output_change`, `gradient_by_stream`, `matrix_updates`, `adam_conditioning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from lamina.diagnose.measure import (
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
from lamina.diagnose.measure.averaging import average
from lamina.diagnose.measure.reading import NotMeasurable
from lamina.diagnose.record import Record
from lamina.diagnose.results import Measure, Skipped

__all__ = ["QUANTITIES", "NotMeasurable", "combine", "take_all"]

QUANTITIES: tuple[ModuleType, ...] = (
    gradient_by_layer,
    gradient_along_stream,
    gradient_at_norms,
    stream_norms,
    norm_jacobian,
    hidden_change,
    added_block,
    cosine_of_layers,
    layer_dependency,
)
"""Those that records alone are enough for, in the order of a report."""


def take_all(records: Sequence[Record]) -> tuple[list[Measure], list[Skipped]]:
    """Everything that the records of one model can tell, and what they cannot."""
    measures, skipped = [], []
    for quantity in QUANTITIES:
        try:
            measures.append(quantity.take(records))
        except NotMeasurable as reason:
            skipped.append(Skipped(key=quantity.MEASURE.key, reason=str(reason)))
    return measures, skipped


def combine(samples: Sequence[Sequence[Measure]]) -> list[Measure]:
    """The measures of several seeds, or of several batches: means with their standard deviations, and conclusions."""
    keys = dict.fromkeys(measure.key for sample in samples for measure in sample)
    conclusions = {quantity.MEASURE.key: getattr(quantity, "conclude", None) for quantity in QUANTITIES}
    combined = []
    for key in keys:
        mean = average([each for sample in samples for each in sample if each.key == key], spread=True)
        conclude = conclusions.get(key)
        combined.append(mean if conclude is None else conclude(mean))
    return combined
