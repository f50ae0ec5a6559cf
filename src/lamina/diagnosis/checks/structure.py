"""Are all layers of a stack built alike, and does a norm follow the last layer of a pre-norm stack?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Location, Measurement, Series
from lamina.diagnosis.measures.layer_structure import (
    FINAL_NORM,
    INPUT_TO_BRANCHES,
    NORMS,
    PRE_NORM,
    REPEATED,
    SUMS,
)
from lamina.diagnosis.results import Action, Finding
from lamina.formatting import short
from lamina.options import Options

MAJORITY = 0.6
"""The share of layers that must be alike before the others are said to differ: hybrid models have several kinds."""


class Structure(Check):
    class Thresholds(Options):
        input_to_branches: PositiveFloat = 8.0
        """The size of the stream's input relative to the sum of all branches, from which on the layers hardly change
        it. Stock pre-norm models have at most 2."""

    reads = ("layer-structure", "initial-loss")
    position = 15

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("layer-structure")
        if measurement is None:
            return
        for stack in dict.fromkeys(each.location.stack for each in measurement.series):
            lines = {each.quantity: each for each in measurement.select(stack=stack)}
            found = [*self._differences(lines), *self._ends(measurement, stack, evidence)]
            found += self._weak_branches(measurement, stack, thresholds)
            yield from found or [
                self.finding(
                    "fine",
                    f"the layers of the {stack} have the same residual sums and norms",
                    location=Location(stack=stack),
                    value=0.0,
                    threshold=0.0,
                )
            ]

    def _differences(self, lines: dict[str, Series]) -> Iterator[Finding]:
        for quantity, what, remedy in (
            (SUMS, "residual sums", "add the branch to the stream: x = x + branch"),
            (NORMS, "norms", "normalise as in the other layers"),
        ):
            line = lines[quantity]
            usual, many = Counter(line.y).most_common(1)[0]
            lacking = [int(layer) for layer, number in zip(line.x, line.y, strict=True) if number < usual]
            if lacking and many >= MAJORITY * len(line.y):
                (number,) = {line.y[line.x.index(lacking[0])]}
                yield self._differ(
                    line.location.stack,
                    lacking,
                    f"{_layers(lacking)} of the {line.location.stack} {_has(lacking)} {number:.0f} {what}, the others "
                    f"{usual:.0f}",
                    remedy,
                )
        twice = [int(layer) for layer, number in zip(lines[REPEATED].x, lines[REPEATED].y, strict=True) if number]
        if twice:
            yield self._differ(
                lines[REPEATED].location.stack,
                twice,
                f"{_layers(twice)} of the {lines[REPEATED].location.stack} {'adds' if len(twice) == 1 else 'add'} the "
                "residual stream to itself: it doubles there",
                "add the stream once: x + branch, not x + (x + branch)",
            )

    def _differ(self, stack: str | None, layers: list[int], sentence: str, remedy: str) -> Finding:
        return self.finding(
            "warning",
            sentence,
            location=Location(stack=stack, layer=layers[0]),
            value=float(len(layers)),
            threshold=0.0,
            remedies=(Action(text=f"{remedy}, in layer {layers[0]}"),),
        )

    def _ends(self, measurement: Measurement, stack: str | None, evidence: CheckEvidence) -> Iterator[Finding]:
        """A pre-norm stack whose output is read by a classifier without a norm in between."""
        is_pre, ends = measurement.fact(PRE_NORM, stack=stack), measurement.fact(FINAL_NORM, stack=stack)
        if is_pre == 1 and ends == 0 and evidence.get("initial-loss") is not None:
            yield self.finding(
                "warning",
                f"no norm follows the last layer of the {stack}, whose layers normalise what they read: its output "
                "grows with depth and in training, and the output layer reads it as it is",
                location=Location(stack=stack),
                value=0.0,
                threshold=1.0,
                remedies=(Action(text="add a norm after the last layer, as nn.TransformerEncoder(…, norm=…)"),),
            )

    def _weak_branches(self, measurement: Measurement, stack: str | None, thresholds: Thresholds) -> Iterator[Finding]:
        share = measurement.fact(INPUT_TO_BRANCHES, stack=stack)
        if share is None or not share > thresholds.input_to_branches:
            return
        yield self.finding(
            "warning",
            f"the input of the {stack} is {short(share)} times as large as all its branches together, above the "
            f"threshold of {short(thresholds.input_to_branches)}: embeddings are too large, or branches too small, for "
            "the layers to matter",
            location=Location(stack=stack),
            value=share,
            threshold=thresholds.input_to_branches,
            remedies=(
                Action(text="scale the embeddings down (multiply by √width once at most), or initialise larger"),
            ),
        )


def _layers(layers: list[int]) -> str:
    return f"layer {layers[0]}" if len(layers) == 1 else f"layers {', '.join(map(str, layers))}"


def _has(layers: list[int]) -> str:
    return "has" if len(layers) == 1 else "have"
