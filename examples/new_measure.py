"""A measure of your own: the share of the residual stream's norm that lies in its mean over positions.

A measure reads a recorded pass and returns typed values; the mean over batches and seeds, the figure and the page are
made by Lamina.
"""

from __future__ import annotations

import torch
from torch import Tensor

import lamina
from lamina.diagnosis.measurement import Axes, Location, Measurement, Series
from lamina.diagnosis.measures import MEASURES
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.reading import layer_outputs, positions, stacks_of


class CommonVector(Measure):
    title = "Share of the vector that all positions have in common"
    formula = "‖mean of x‖² ÷ mean of ‖x‖²"
    source = "examples/new_measure.py"
    look_for = "Near 1 all positions hold the same vector, and the layers above cannot tell them apart."
    axes = Axes(x="layer", y="share of the squared norm")
    needs = ("record",)

    def take(self, evidence: Evidence) -> Measurement:
        series = []
        for stack in stacks_of(require(evidence.record)):
            shares = [common_share(positions(stack, output)) for output in layer_outputs(stack)]
            numbers = tuple(range(1, len(shares) + 1))
            series.append(Series(location=Location(stack=stack.name), x=numbers, y=tuple(shares)))
        return self.measurement(series)


def common_share(vectors: Tensor) -> float:
    """Of (positions, width): 1 if all positions are equal, 1 ÷ positions if they are orthogonal and equally long."""
    return (vectors.mean(0).square().sum() / vectors.square().sum(-1).mean()).item()


MEASURES.add("common-vector", CommonVector)

if __name__ == "__main__":

    def build(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        return torch.nn.TransformerEncoder(layer, num_layers=12)

    report = lamina.diagnose(build, torch.randn(8, 16, 32), seeds=2)
    [line] = report["common-vector"].measured
    print("layer 1 to 12:", " ".join(f"{value:.2f}" for value in line.y))
    report.save("why.html")  # with a figure of the new measure
