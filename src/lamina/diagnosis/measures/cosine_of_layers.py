"""Cosine similarity between the outputs of all pairs of layers.

    mean over real positions of  x_l·x_m ÷ (‖x_l‖·‖x_m‖),  before any final norm

Takase et al. 2022, figure 5: in trained pre-LN stacks low layers resemble the last one more than in post-LN. Facts of
each stack: `first with last`, the cosine of the first layer with the last; `all with last`, the mean over all layers
below the last.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Grid, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.reading import layer_outputs, positions, stacks_of
from lamina.diagnosis.recording.records import StackRecord

FIRST_WITH_LAST = FactName("first with last")
ALL_WITH_LAST = FactName("all with last")


class CosineOfLayers(Measure):
    title = "Similarity of the layers' outputs"
    formula = "mean over positions of x_l·x_m ÷ (‖x_l‖‖x_m‖)"
    source = "Takase et al. 2022, figure 5"
    look_for = "A bright corner at the last layers shows that they change their input little."
    axes = Axes(x="layer", y="layer")
    needs = ("record",)
    position = 80

    def take(self, evidence: Evidence) -> Measurement:
        grids, facts = [], []
        for stack in stacks_of(require(evidence.record)):
            found, location = cosines(stack), Location(stack=stack.name)
            values = tuple(map(tuple, found.tolist()))
            grids.append(Grid(location=location, values=values, rows="layer", columns="layer"))
            with_last = found[:-1, -1].mean().item() if len(found) > 1 else 1.0
            facts.append(Fact(name=FIRST_WITH_LAST, location=location, value=found[0, -1].item()))
            facts.append(Fact(name=ALL_WITH_LAST, location=location, value=with_last))
        return self.measurement(grids=grids, facts=facts)


def cosines(stack: StackRecord) -> Tensor:
    """The cosines between the outputs of all pairs of layers, (layers, layers)."""
    outputs = torch.stack([F.normalize(positions(stack, recorded), dim=-1) for recorded in layer_outputs(stack)])
    flat = outputs.flatten(1)  # (layers, positions · dim)
    return (flat @ flat.T) / outputs.shape[1]
