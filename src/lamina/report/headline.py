"""The summary at the head of a diagnosis: one verdict, what the model is, and the health of every layer."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.diagnosis.results import Diagnosis, Finding, ModelFacts, Severity
from lamina.formatting import count, short
from lamina.report.labels import check_name

ORDER: tuple[Severity, ...] = ("failure", "warning", "fine", "not measured")
PLACEMENTS = {
    "pre": "norms before the sub-layers (pre-LN)",
    "post": "norms after the residual sums (post-LN)",
    "both": "norms before and after the sub-layers",
    "none": "no norms in the layers",
}


@dataclass(frozen=True)
class Headline:
    """The headline of a diagnosis."""

    severity: Severity
    text: str


def headline(diagnosis: Diagnosis) -> Headline:
    """One sentence about the whole model, from the worst finding."""
    found = [each for each in diagnosis.findings if each.severity != "not measured"]
    worst = [each for each in found if each.severity == "failure"] or [
        each for each in found if each.severity == "warning"
    ]
    if not found:
        return Headline("not measured", "Nothing could be checked")
    if not worst:
        checks = len({each.check for each in found})
        return Headline("fine", f"No fault found by {count(checks, 'check')}")
    severity = worst[0].severity
    during = diagnosis.spread_over == "steps"
    if severity == "failure":
        opening = "Training is failing" if during else "Training is likely to fail"
    else:
        opening = "Something in training needs a look" if during else "This model may train badly"
    others = len(worst) - 1
    more = f" (and {count(others, f'other {severity}')})" if others else ""
    return Headline(severity, f"{opening}: {check_name(worst[0].check)}{_place(worst[0])}{more}")


def _place(finding: Finding) -> str:
    location = finding.location
    if location.module:
        return f" in {location.module}"
    if location.stack is None:
        return ""
    layer = f"layer {location.layer} of " if location.layer is not None else ""
    return f" in {layer}the {location.stack}"


def model_facts(facts: ModelFacts | None) -> list[tuple[str, str]]:
    """What the model is, in a few rows."""
    if facts is None:
        return []
    rows = [("layers", ", ".join(f"{number} in {stack}" for stack, number in facts.layers.items()))]
    placements = {stack: PLACEMENTS[each] for stack, each in facts.placements.items() if each is not None}
    if len(set(placements.values())) == 1:
        rows.append(("norms found", next(iter(placements.values()))))
    elif placements:
        rows.append(("norms found", "; ".join(f"{stack}: {text}" for stack, text in placements.items())))
    if facts.width:
        rows.append(("width", f"{facts.width:,} numbers per position"))
    if facts.parameters:
        frozen = facts.parameters - facts.trained
        rows.append(("parameters", f"{facts.parameters:,}" + (f", {frozen:,} of them frozen" if frozen else "")))
    if facts.batch:
        rows.append(("a batch", " × ".join(f"{each:,}" for each in facts.batch) + " positions"))
    return rows


@dataclass(frozen=True)
class LayerHealth:
    """One cell of the health strip."""

    layer: int
    severity: Severity
    text: str
    """What was found in the layer."""


def health_strips(diagnosis: Diagnosis) -> dict[str, list[LayerHealth]]:
    """For every stack the worst severity of each layer; a finding about a whole stack counts for none of its layers."""
    layers = diagnosis.facts.layers if diagnosis.facts is not None else {}
    checked = any(each.severity != "not measured" for each in diagnosis.findings)
    return {
        stack: [_health(diagnosis, stack, layer, checked) for layer in range(1, number + 1)]
        for stack, number in layers.items()
    }


def _health(diagnosis: Diagnosis, stack: str, layer: int, checked: bool) -> LayerHealth:
    found = [
        each
        for each in diagnosis.findings
        if each.location.stack == stack
        and layer in _layers_of(each, diagnosis)
        and each.severity in ("failure", "warning")
    ]
    worst = min(found, key=lambda each: ORDER.index(each.severity), default=None)
    if worst is None:
        return LayerHealth(layer, "fine" if checked else "not measured", "nothing found" if checked else "not checked")
    value = "" if worst.value is None else f", {short(worst.value)}"
    return LayerHealth(layer, worst.severity, f"{check_name(worst.check)}{value}")


def _layers_of(finding: Finding, diagnosis: Diagnosis) -> list[int]:
    """The layer of a finding; of one about layers without gradient, all that have none."""
    named = [] if finding.location.layer is None else [finding.location.layer]
    if finding.check != "untrained":
        return named
    shares = [each for each in diagnosis.measurements if each.key == "gradient-coverage"]
    series = [line for each in shares for line in each.select(stack=finding.location.stack)]
    return named + [int(x) for each in series for x, y in zip(each.x, each.y, strict=True) if y == 0]


def changes(before: Diagnosis, after: Diagnosis) -> list[tuple[str, str, str, str]]:
    """For every check: its worst severity before and after, and what that means."""
    checks = dict.fromkeys(each.check for each in (*before.findings, *after.findings))
    rows = []
    for check in checks:
        first, second = (_worst(each, check) for each in (before, after))
        rows.append((check_name(check), first, second, _change(first, second)))
    return sorted(rows, key=lambda row: MEANINGS.index(row[3]))


MEANINGS = ("new", "worse", "still there", "better", "resolved", "unchanged", "not comparable")


def _change(before: Severity, after: Severity) -> str:
    if "not measured" in (before, after):
        return "not comparable"
    was, now = ORDER.index(before), ORDER.index(after)
    fine = ORDER.index("fine")
    if was == now:
        return "unchanged" if now == fine else "still there"
    if now > was:
        return "resolved" if now == fine else "better"
    return "new" if was == fine else "worse"


def _worst(diagnosis: Diagnosis, check: str) -> Severity:
    found = {each.severity for each in diagnosis.findings if each.check == check}
    return next((each for each in ORDER if each in found), "not measured")
