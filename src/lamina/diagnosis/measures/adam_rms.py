"""How well Adam's second moment knows the present gradient.

    √mean(g² ÷ v̂) of every matrix, v̂ the bias-corrected second moment before this gradient

Wortsman et al. 2023, section 3.3 (after Shazeer and Stern 2018): about 1 while v̂ follows the gradient; a value above 2
precedes spikes of the loss, since the update is that many times too large. The largest of each layer is shown.
"""

from __future__ import annotations

from collections import defaultdict

from lamina.diagnosis.measurement import Axes, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.layers import find_layers


class AdamRms(Measure):
    title = "Gradient against Adam's second moment"
    formula = "√mean(g² ÷ v̂)"
    source = "Wortsman et al. 2023, section 3.3"
    look_for = "Above 2 the second moment lags behind the gradient, and updates are too large: lower β₂."
    axes = Axes(x="layer", y="√mean(g² ÷ v̂)", log_y=True)
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 122

    def take(self, evidence: Evidence) -> Measurement:
        found = evidence.planned.adam_rms
        if not found:
            raise NotMeasurable("no optimiser was given that is an Adam and has made steps")
        stacks: dict[str, dict[int, float]] = defaultdict(dict)
        for each in find_layers(require(evidence.model)).matrices:
            if each.name.layer is not None and each.parameter in found:
                layers = stacks[each.name.stack]
                layers[each.name.layer + 1] = max(found[each.parameter], layers.get(each.name.layer + 1, 0.0))
        series = [
            Series(
                location=Location(stack=stack), x=tuple(sorted(layers)), y=tuple(layers[at] for at in sorted(layers))
            )
            for stack, layers in stacks.items()
        ]
        return self.measurement(series)
