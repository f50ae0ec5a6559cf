"""The largest values of the modules inside every layer, and the first module whose values are not finite.

    max |y| over the outputs y of all modules inside a layer, branches included, and max |∂L/∂y|

Not in the papers. A branch can exceed half precision long before the residual stream does: attention scores and the
inner layer of the feed-forward are larger than their sums. A value that is not finite is named by the first module in
the order of the forward pass, then of the backward pass.

Facts: `largest`, for each stack, at the module with the largest output; and where a value is not finite, at that module
with the kind of value as the quantity, `input` and `parameters`, the largest absolute values of its input and of its
own parameters, and `limit`, the largest number of the precision it computes in; of a watched model whose last watched
step was finite again, `finite again at step`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.ranges import ModuleRange, NonFinite

OUTPUT, GRADIENT = "output", "gradient"
"""The quantities of the lines."""
LARGEST = FactName("largest")
RECOVERED = FactName("finite again at step")
INPUT, PARAMETERS, LIMIT = FactName("input"), FactName("parameters"), FactName("limit")
MASK = 0.9
"""A finite value above this share of the largest number of its precision is that of an attention mask."""


class ModuleRanges(Measure):
    title = "Largest values inside the layers"
    formula = "max |y| over the outputs of all modules of a layer, and max |∂L/∂y|"
    source = "not in the papers"
    look_for = (
        "Half precision ends at 65,504. Where a line is interrupted, values are not finite: the table names the first "
        "module, in the order of the computation."
    )
    axes = Axes(x="layer", y="largest absolute value", log_y=True)
    needs = ("record", "history")
    position = 45

    def take(self, evidence: Evidence) -> Measurement:
        if evidence.record is not None:
            return self.of(evidence.record.ranges, evidence.record.non_finite)
        watched = [each.ranges for each in require(evidence.history) if each.ranges is not None]
        if not watched:
            raise NotMeasurable("the ranges of no watched step were recorded")
        first, last = next((each for each in watched if each.find_facts(LIMIT)), watched[-1]), watched[-1]
        if first is last or last.find_facts(LIMIT):
            return first
        recovered = Fact(name=RECOVERED, value=float(require(evidence.history)[-1].step))
        return first.model_copy(update={"facts": (*first.facts, recovered)})

    def of(self, ranges: Sequence[ModuleRange], non_finite: NonFinite | None) -> Measurement:
        if not ranges and non_finite is None:
            raise NotMeasurable("the output of no module was recorded")
        stacks = list(dict.fromkeys(each.stack for each in ranges if each.stack is not None))
        series = [each for stack in stacks for each in _lines([one for one in ranges if one.stack == stack])]
        facts = [*_largest(ranges), *([] if non_finite is None else _non_finite(non_finite))]
        return self.measurement(series, facts=facts)


def _lines(ranges: Sequence[ModuleRange]) -> Iterator[Series]:
    """Two lines of one stack: outputs and gradients."""
    values: dict[str, Callable[[ModuleRange], float | None]] = {
        OUTPUT: lambda each: None if _is_mask(each) else each.output,
        GRADIENT: lambda each: each.gradient,
    }
    for quantity, value_of in values.items():
        layers: dict[int, float] = defaultdict(float)
        for each in ranges:
            value = value_of(each)
            if value is not None and each.layer is not None:
                layers[each.layer + 1] = max(layers[each.layer + 1], value if isfinite(value) else inf)
        if layers:
            x = tuple(sorted(layers))
            yield Series(
                location=Location(stack=ranges[0].stack), quantity=quantity, x=x, y=tuple(layers[at] for at in x)
            )


def _largest(ranges: Sequence[ModuleRange]) -> Iterator[Fact]:
    by_stack: dict[str, list[ModuleRange]] = defaultdict(list)
    for each in ranges:
        if each.stack is not None and isfinite(each.output) and not _is_mask(each):
            by_stack[each.stack].append(each)
    for found in by_stack.values():
        largest = max(found, key=lambda each: each.output)
        yield Fact(name=LARGEST, location=largest.location, value=largest.output)


def _non_finite(found: NonFinite) -> Iterator[Fact]:
    values = {INPUT: found.input, PARAMETERS: found.parameters, LIMIT: found.limit}
    for name, value in values.items():
        if value is not None:
            yield Fact(name=name, location=found.location, quantity=found.kind, value=value)


def _is_mask(found: ModuleRange) -> bool:
    return isfinite(found.output) and found.output > MASK * found.limit
