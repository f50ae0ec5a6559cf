"""Gradients along the sub-layers of encoder–decoders at initialisation, divided by the largest in the network.

Liu et al. 2020, figure 3 and table 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.gradient_along_stream import BELOW_TO_ABOVE, GradientAlongStream
from lamina.diagnosis.recording.records import Record
from lamina.diagnosis.subject import Subject
from lamina.studies.papers.initial_models import record_stacks
from lamina.studies.result_table import Label, ResultRow, ResultTable, row
from lamina.studies.samples import Sample

KINDS = ("self-attention", "cross-attention", "feed-forward")


def measure_relative_gradients(subject: Subject, seed: int, **labels: str) -> Iterator[ResultRow]:
    """The gradient after every sub-layer; and for each kind of sub-layer the median share that is left below it."""
    stacks = record_stacks(subject, seed)
    found = GradientAlongStream().take(Evidence(record=Record(0.0, list(stacks.values()))))
    for name, stack in stacks.items():
        (series,) = found.select(stack=name, stream=None)
        for sublayer, norm in zip(stack.sublayers, series.y, strict=True):
            place: dict[str, Label] = {
                "sublayer": sublayer.place.index + 1,
                "layer": sublayer.place.layer + 1,
                "kind": sublayer.place.kind,
            }
            yield row("gradient", norm, seed, stack=name, **place, **labels)
        for fact in found.find_facts(BELOW_TO_ABOVE, stack=name):
            yield row("share left", fact.value, seed, stack=name, kind=str(fact.location.sublayer_kind), **labels)


def first_to_last(results: ResultTable, stack: str, **labels: str) -> Sample:
    """The gradient after the first sub-layer of a stack divided by that after the last."""
    return results.first_to_last("sublayer", "gradient", stack=stack, **labels)
