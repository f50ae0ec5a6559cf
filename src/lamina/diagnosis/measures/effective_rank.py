"""The effective rank of the residual stream after every layer.

    exp(−Σ p_i ln p_i) ÷ min(positions, width),  p_i = σ_i ÷ Σσ,  σ the singular values of the vectors as rows

Roy and Vetterli 2007, definition; Dong et al. 2021: attention without residual connections or feed-forward makes all
positions alike, and the rank falls to 1 doubly exponentially with depth. At most 256 positions are used, evenly spaced.
Fact of each stack: `last/first`, the rank after the last layer relative to that after the first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.reading import layer_outputs, positions, stacks_of
from lamina.diagnosis.measures.statistics import ratio

LAST_TO_FIRST = FactName("last/first")
POSITIONS = 256


class EffectiveRank(Measure):
    title = "Effective rank of the stream"
    formula = "exp(−Σ p ln p) ÷ min(positions, width), p the normalised singular values"
    source = "Roy and Vetterli 2007; Dong et al. 2021"
    look_for = "A line that falls towards 0 shows positions that become alike, so that upper layers see one vector."
    axes = Axes(x="layer", y="effective rank, share of the largest")
    needs = ("record",)
    position = 84

    def take(self, evidence: Evidence) -> Measurement:
        series = []
        for stack in stacks_of(require(evidence.record)):
            ranks = [effective_rank(positions(stack, each)) for each in layer_outputs(stack)]
            series.append(
                Series(location=Location(stack=stack.name), x=tuple(range(1, len(ranks) + 1)), y=tuple(ranks))
            )
        return self.measurement(series)

    def conclude(self, measurement: Measurement) -> Measurement:
        facts = [
            Fact(name=LAST_TO_FIRST, location=each.location, value=ratio(each.y[-1], each.y[0]))
            for each in measurement.measured
        ]
        return measurement.model_copy(update={"facts": tuple(facts)})


def effective_rank(rows: Tensor) -> float:
    """The effective rank of (positions, width) relative to the largest possible; NaN of numbers that are not finite."""
    chosen = torch.linspace(0, len(rows) - 1, min(POSITIONS, len(rows))).long().to(rows.device)
    rows = rows[chosen].double() if not rows.is_mps else rows[chosen]
    if not bool(torch.isfinite(rows).all()):
        return float("nan")
    gram = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    values = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    shares = values / values.sum()
    entropy = -(shares * shares.clamp(min=1e-30).log()).sum()
    return entropy.exp().item() / len(values)
