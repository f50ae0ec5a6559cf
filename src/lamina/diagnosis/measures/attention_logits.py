"""The largest attention logit of every head.

    max |q·k| ÷ √d over all queries and the keys that they see, d the width of a head

Dehghani et al. 2023 (ViT-22B), section 2, and Wortsman et al. 2023, section 3.1: logits that grow in training precede
divergence; a softmax over logits of a hundred is one-hot, and its gradient zero. Biases that a model adds to the
product, as for relative positions, are part of the logits. Fact of each layer: `largest`, at its attention module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Grid, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.attention import AttentionRecord

LARGEST_LOGIT = FactName("largest logit")


class AttentionLogits(Measure):
    title = "Largest attention logits"
    formula = "max |q·k| ÷ √d of every head"
    source = "Dehghani et al. 2023, section 2; Wortsman et al. 2023, section 3.1"
    look_for = (
        "At initialisation logits are of order 1. Above about 50 the softmax is one-hot, and queries and keys get no "
        "gradient. The map shows single heads."
    )
    axes = Axes(x="layer", y="largest logit", log_y=True)
    needs = ("record",)
    position = 46

    def take(self, evidence: Evidence) -> Measurement:
        calls = attention_of(evidence)
        series, grids = by_layer(calls, lambda each: each.largest, max)
        facts = [
            Fact(name=LARGEST_LOGIT, location=each.location, value=each.largest.max().item())
            for each in calls
            if each.location.layer is not None
        ]
        return self.measurement(series, grids=grids, facts=facts)


def attention_of(evidence: Evidence) -> list[AttentionRecord]:
    """The calls of attention inside the layers; of a module that is called several times, the first call."""
    found: dict[Location, AttentionRecord] = {}
    for each in require(evidence.record).calls.attention:
        if each.location.layer is not None:
            found.setdefault(each.location, each)
    if not found:
        raise NotMeasurable("no attention was recognised inside the layers")
    return list(found.values())


def by_layer(
    calls: Sequence[AttentionRecord],
    number: Callable[[AttentionRecord], Tensor],
    over_heads: Callable[[Sequence[float]], float],
) -> tuple[list[Series], list[Grid]]:
    """A line for every stack and kind of attention, and a map of its heads."""
    groups: dict[Location, dict[int, list[float]]] = defaultdict(dict)
    for each in calls:
        assert each.location.layer is not None
        kind = Location(stack=each.location.stack, sublayer_kind=each.location.sublayer_kind)
        groups[kind].setdefault(each.location.layer, number(each).tolist())
    series, grids = [], []
    for location, layers in groups.items():
        x = tuple(sorted(layers))
        series.append(Series(location=location, x=x, y=tuple(over_heads(layers[layer]) for layer in x)))
        if len({len(heads) for heads in layers.values()}) == 1:
            values = tuple(tuple(layers[layer]) for layer in x)
            grids.append(Grid(location=location, values=values, rows="layer", columns="head"))
    return series, grids
