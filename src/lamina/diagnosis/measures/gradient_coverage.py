"""Which parameters have a gradient, by layer and module, and why the others have none.

    share of layer l = numbers of its parameters whose ∂L/∂W is not zero in every place ÷ numbers of all its parameters

Not in the papers: it separates layers that are not trained at all from layers whose gradient is small. How the causes
are distinguished is described in `recording.parameters`.

Facts: for every module whose matrices, or whose vectors if it has no matrix, lack a gradient in all batches, one with
the cause as its name (`frozen`, `detached`, `unused` …) and the share of its numbers that are in matrices; `quantity`
is the path of the parameter that is zero, where that is the cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.parameters import Cause, ParameterRecord

CAUSES: dict[Cause, FactName] = {cause: FactName(cause) for cause in get_args(Cause)}
"""The name of the fact for every cause."""
_REACHED = FactName("with gradient")


class GradientCoverage(Measure):
    title = "Parameters with a gradient"
    formula = "share of a layer's parameters whose gradient is not zero"
    source = "not in the papers"
    look_for = (
        "In a model that is trained as a whole the share is 1 in every layer. Layers at 0 are not trained; the table "
        "names the modules and the cause."
    )
    axes = Axes(x="layer", y="share of parameters with a gradient")
    needs = ("record", "history")
    position = 5

    def take(self, evidence: Evidence) -> Measurement:
        if evidence.record is not None:
            return self.of(evidence.record.parameters)
        found = [each.coverage for each in require(evidence.history) if each.coverage is not None]
        if not found:
            raise NotMeasurable("the parameters of no watched step were recorded")
        return found[-1]

    def of(self, parameters: Sequence[ParameterRecord]) -> Measurement:
        if not parameters:
            raise NotMeasurable("no parameter was recorded")
        return self.measurement([*_shares(parameters)], facts=[*_facts(parameters)])

    def conclude(self, measurement: Measurement) -> Measurement:
        """Keep the causes of modules that had no gradient in any batch."""
        reached = {each.location for each in measurement.find_facts(_REACHED) if each.value}
        facts = [each for each in measurement.facts if each.name != _REACHED and each.location not in reached]
        return measurement.model_copy(update={"facts": tuple(facts)})


def _shares(parameters: Iterable[ParameterRecord]) -> Iterator[Series]:
    """A line for every stack: the share of every layer."""
    numbers: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for each in parameters:
        if each.stack is not None and each.layer is not None:
            counts = numbers[each.stack][each.layer + 1]
            counts[0] += each.numbers if each.cause is None else 0
            counts[1] += each.numbers
    for stack, layers in numbers.items():
        shares = tuple(layers[layer][0] / layers[layer][1] for layer in sorted(layers))
        yield Series(location=Location(stack=stack), x=tuple(sorted(layers)), y=shares)


def _facts(parameters: Iterable[ParameterRecord]) -> Iterator[Fact]:
    modules: dict[Location, list[ParameterRecord]] = defaultdict(list)
    for each in parameters:
        if not each.numbers:
            continue
        layer = None if each.layer is None else each.layer + 1
        modules[Location(stack=each.stack, layer=layer, module=each.module)].append(each)
    for location, held in modules.items():
        numbers = sum(each.numbers for each in held)
        judged = [each for each in held if each.matrix] or held  # a bias may have a gradient where its matrix has none
        reached = sum(each.numbers for each in judged if each.cause is None)
        yield Fact(name=_REACHED, location=location, value=reached / numbers)
        first = max(judged, key=lambda each: each.numbers)
        if not reached and first.cause is not None:
            in_matrices = sum(each.numbers for each in held if each.matrix) / numbers
            yield Fact(name=CAUSES[first.cause], location=location, quantity=first.because_of, value=in_matrices)
