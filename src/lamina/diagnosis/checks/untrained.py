"""Which layers and modules have no gradient, and why?

A layer without gradient is not trained. The cause decides how serious that is: a frozen layer may be intended, one that
was detached from the graph hardly ever is, and one behind a matrix that is initialised to zero has a gradient after the
first step. Frozen modules beside trained ones in the same layer, as with LoRA, are not reported as a fault.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Fact, Location, Measurement
from lamina.diagnosis.measures.gradient_coverage import CAUSES
from lamina.diagnosis.recording.parameters import Cause
from lamina.diagnosis.results import Action, Code, Finding, Remedy, Severity
from lamina.formatting import count, short

REASONS: dict[Cause, str] = {
    "frozen": "requires_grad is False",
    "detached": "the loss depends on them, but the graph was cut by detach(), .data or no_grad()",
    "not in the optimiser": "the optimiser was not given the parameters",
    "unused": "nothing called them in the forward pass",
    "without effect": "they were called, but the loss does not depend on the output",
    "zero gain": "the gain {zero} is zero",
    "zero-initialised": "{zero} is zero",
    "zero gradient": "it is exactly zero in every batch, as where units are never active",
}
REMEDIES: dict[Cause, str] = {
    "frozen": 'model.get_submodule("{module}").requires_grad_()',
    "detached": "look for detach(), .data, no_grad() or a conversion to numpy in what reads the output of {module}",
    "not in the optimiser": 'optimiser.add_param_group({{"params": model.get_submodule("{module}").parameters()}})',
    "unused": "call {module} in the forward pass, or remove it",
    "without effect": "use the output of {module} in the loss, or remove it",
    "zero gain": 'torch.nn.init.ones_(model.get_parameter("{zero}"))',
    "zero-initialised": 'torch.nn.init.normal_(model.get_parameter("{zero}"), std=0.02)',
    "zero gradient": "examine the activations around {module}: a smaller initialisation or learning rate, or GELU for "
    "ReLU",
}

LINES_OF_CODE: tuple[Cause, ...] = ("frozen", "not in the optimiser", "zero gain", "zero-initialised")
"""Causes whose remedy is a line of code."""
EXPERT = re.compile(r"expert", re.IGNORECASE)
"""Modules to which a router may send no token of a few small batches."""
NEVER_TRAINED: tuple[Cause, ...] = ("frozen", "detached", "unused", "without effect")
"""Causes that do not end with the first steps: a parameter that is zero for good has no gradient behind it."""


class Untrained(Check):
    reads = ("gradient-coverage",)
    position = 25

    def judge(self, evidence: CheckEvidence, thresholds: Check.Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("gradient-coverage")
        if measurement is None:
            return
        groups: dict[tuple[Cause, str | None], list[Fact]] = defaultdict(list)
        for cause, name in CAUSES.items():
            for fact in measurement.find_facts(name):
                groups[cause, fact.location.stack].append(fact)
        for (cause, stack), facts in groups.items():
            yield self._judge_group(cause, stack, facts, measurement, evidence)
        named = {stack for _, stack in groups}
        for series in measurement.measured:
            if series.location.stack not in named:
                least = min(series.y)
                sentence = f"every layer of the {series.location.stack} has a gradient"
                sentence += "" if least == 1 else f", and in each at least {short(least)} of the parameters"
                yield self.finding("fine", sentence, location=series.location, value=least, threshold=0.0)

    def _judge_group(
        self,
        cause: Cause,
        stack: str | None,
        facts: Sequence[Fact],
        measurement: Measurement,
        evidence: CheckEvidence,
    ) -> Finding:
        """The finding about all modules of a stack that lack a gradient for the same reason."""
        shares = {
            int(layer): share
            for series in measurement.select(stack=stack)
            for layer, share in zip(series.x, series.y, strict=True)
        }
        empty = [layer for layer, share in shares.items() if share == 0]
        whole = sorted({layer for fact in facts if (layer := fact.location.layer) in empty and layer is not None})
        first = next((fact for fact in facts if fact.location.layer in whole), facts[0])
        inside = [fact.location.module or "" for fact in facts if fact.location.layer == first.location.layer]
        module = _common_path(inside) if whole else first.location.module or ""
        severity = _severity(cause, facts, whole=bool(whole), measurement=measurement, evidence=evidence)
        single = len(facts) == 1 or len(whole) == 1
        lacks = "is not updated" if cause == "not in the optimiser" else f"{'has' if single else 'have'} no gradient"
        sentence = f"{_describe(stack, whole, facts, module)} {lacks}: "
        sentence += REASONS[cause].format(zero=first.quantity)
        if cause in ("zero gain", "zero-initialised") and severity == "fine":
            sentence += ", which is trained; there is a gradient after the first steps"
        return self.finding(
            severity,
            f"{cause}: {sentence}",
            location=Location(stack=stack, layer=first.location.layer, module=module),
            value=min(shares.values(), default=0.0),
            threshold=0.0,
            remedies=(_remedy(cause, module, first.quantity),),
        )


def _remedy(cause: Cause, module: str, zero: str) -> Remedy:
    text = REMEDIES[cause].format(module=module, zero=zero)
    return Code(line=text) if cause in LINES_OF_CODE else Action(text=text)


def _severity(
    cause: Cause, facts: Sequence[Fact], *, whole: bool, measurement: Measurement, evidence: CheckEvidence
) -> Severity:
    in_layers = any(fact.location.layer is not None for fact in facts)
    has_matrix = any(fact.value for fact in facts)
    match cause:
        case "frozen":
            return "warning" if whole else "fine"
        case "detached":
            return "failure" if in_layers else "warning"
        case "not in the optimiser":
            return "failure" if whole else "warning"
        case "unused":
            experts = not whole and all(EXPERT.search(fact.location.module or "") for fact in facts)
            return "warning" if (in_layers or has_matrix) and not experts else "fine"
        case "zero gradient":
            return "warning" if in_layers and has_matrix else "fine"
        case "without effect":
            return "warning" if in_layers and has_matrix else "fine"
        case "zero gain" | "zero-initialised":
            never = [each for name in NEVER_TRAINED for each in measurement.find_facts(CAUSES[name])]
            untrained = {each.location.module for each in never}
            stuck = any(fact.quantity.rpartition(".")[0] in untrained for fact in facts)
            return (
                "failure"
                if stuck
                else "warning"
                if not evidence.schemes and (whole or cause == "zero gain")
                else "fine"
            )


def _describe(stack: str | None, whole: Sequence[int], facts: Sequence[Fact], module: str) -> str:
    """`layers 1 to 3 of the encoder (from encoder.layers.0 on)`, `encoder.layers.2.fc1 and 3 other modules`."""
    if whole:
        return f"{_name_layers(whole)} of the {stack} ({module}{' and the others' if len(whole) > 1 else ''})"
    others = len(facts) - 1
    return module if not others else f"{module} and {count(others, 'other module')}"


def _common_path(paths: Sequence[str]) -> str:
    """`layers.0` of `layers.0.linear1` and `layers.0.norm`."""
    parts = [path.split(".") for path in paths]
    same = [each[0] for each in zip(*parts, strict=False) if len(set(each)) == 1]
    return ".".join(same) or paths[0]


def _name_layers(layers: Sequence[int]) -> str:
    """`layer 3`, `layers 1 to 3`, `layers 1, 4`."""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if all(after == before + 1 for before, after in pairwise(layers)):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(map(str, layers))}"
