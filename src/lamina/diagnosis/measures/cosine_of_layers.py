"""Cosine similarity between the outputs of all pairs of layers.

    mean over real positions of  x_l·x_m ÷ (‖x_l‖·‖x_m‖),  before any final norm

Takase et al. 2022, figure 5: in trained pre-LN stacks low layers resemble the last one more than in post-LN.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.reading import layer_outputs, positions, stacks_of
from lamina.diagnosis.recording.records import Record, StackRecord
from lamina.diagnosis.results import Grid, Measure

MEASURE = Measure(
    key="cosine-of-layers",
    title="How alike the layers' outputs are",
    formula="mean over positions of x_l·x_m ÷ (‖x_l‖‖x_m‖)",
    source="Takase et al. 2022, figure 5",
    look_for="A bright corner means that the last layers change little: their outputs all look alike.",
    x_label="layer",
    y_label="layer",
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def _take(record: Record) -> Measure:
    grids, facts = [], {}
    for stack in stacks_of(record):
        found = cosines(stack)
        grids.append(Grid(label=stack.name, values=tuple(map(tuple, found.tolist())), rows="layer", columns="layer"))
        facts[f"{stack.name} first with last"] = found[0, -1].item()
        facts[f"{stack.name} all with last"] = found[:-1, -1].mean().item() if len(found) > 1 else 1.0
    return MEASURE.model_copy(update={"grids": tuple(grids), "facts": facts})


def cosines(stack: StackRecord) -> Tensor:
    """(layers, layers)"""
    outputs = torch.stack([F.normalize(positions(stack, seen), dim=-1) for seen in layer_outputs(stack)])
    flat = outputs.flatten(1)  # (layers, positions · dim)
    return (flat @ flat.T) / outputs.shape[1]
