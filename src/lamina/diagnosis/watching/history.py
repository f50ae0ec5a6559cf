"""What a watch has seen as a diagnosis: series over steps, maps of layers over steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite, nan
from statistics import median

from lamina.diagnosis.judge import judge
from lamina.diagnosis.measures import NotMeasurable, matrix_updates
from lamina.diagnosis.measures.gradient_by_layer import Weakest, over_kinds, weakest
from lamina.diagnosis.recording.cross_attention import CROSS
from lamina.diagnosis.results import Diagnosis, Grid, Measure, Series, Skipped
from lamina.diagnosis.thresholds import VerdictOptions
from lamina.diagnosis.watching.observation import Look, distance

Homes = Mapping[str, tuple[str, int, str]]
"""By the label that a look has for a matrix: stack, layer from 0, and kind. Embeddings and heads have none."""

UPDATES = Measure(
    key="watched-updates",
    title="Updates over training",
    formula="|W_{t+1} − W_t| ÷ |W_t|, the median over layers",
    source="after Liu et al. 2020, figures 5 and 11",
    look_for="Lines of one kind should move together with the learning rate. A line, or a layer in the map, that jumps "
    "away from the others shows where training goes wrong.",
    x_label="step",
    y_label="relative update",
    log_y=True,
)
GRADIENTS = Measure(
    key="watched-gradients",
    title="Gradients over training",
    formula="‖∂L/∂W‖, the median over layers",
    source="after Liu et al. 2020, figures 5 and 11",
    look_for="Queries and keys, inside the softmax, have smaller gradients than the others in every scheme; Adam evens "
    "that out. A kind or a layer that fades to nothing is no longer trained.",
    x_label="step",
    y_label="gradient norm",
    log_y=True,
)
WEAKEST = Measure(
    key="watched-weakest-layer",
    title="The weakest layer's gradient over training",
    formula="min_l ‖∂L/∂W_l‖ ÷ ‖∂L/∂W_L‖, L the last layer of the stack",
    source="after Liu et al. 2020, figure 3",
    look_for="A line that falls and stays down: the lower layers of this stack no longer learn. In the stack that the "
    "loss is read from it comes before a loss that stays where it is.",
    x_label="step",
    y_label="share of the last layer's",
    log_y=True,
)
CONDITION = Measure(
    key="watched-condition",
    title="Condition of Adam's update over training",
    formula="κ = √Σ(∂uᵢ/∂gᵢ)², over all weights, of the optimiser's real state",
    source="Xie et al. 2023, Theorem 3.2",
    look_for="A large κ means that tiny changes of the gradient turn the update around; it should fall as gradients "
    "become larger than Adam's ε, and be small throughout a warm-up.",
    x_label="step",
    y_label="κ",
    log_y=True,
)
STREAMS = Measure(
    key="watched-streams",
    title="The stream over training",
    formula="√(mean x²) after the last layer, and in the map after every layer",
    source="Xiong et al. 2020, Lemma 2, followed through training",
    look_for="A stream that keeps growing makes the upper layers count for less, and leaves half precision at 65,504.",
    x_label="step",
    y_label="root mean square",
    log_y=True,
)


def diagnose_history(
    history: Sequence[Look], homes: Homes, *, name: str, model: str, schemes: Sequence[str], options: VerdictOptions
) -> Diagnosis:
    measures = tuple(_measures(history, homes)) if history else ()
    return Diagnosis(
        name=name,
        model=model,
        schemes=tuple(schemes),
        spread_over="steps",
        repeats=max(1, len(history)),
        step=history[-1].step if history else None,
        measures=measures,
        skipped=tuple(_skipped(history, {each.key for each in measures})),
        verdicts=judge(measures, schemes=schemes, options=options),
    )


def _measures(history: Sequence[Look], homes: Homes) -> Iterable[Measure]:
    yield _by_kind(UPDATES, history, [look.sizes.updates for look in history], homes).model_copy(
        update={"facts": _departures(history)}
    )
    yield _by_kind(GRADIENTS, history, [look.sizes.gradients for look in history], homes)
    yield from _weakest(history, homes)
    yield from _attention(history, homes)
    conditions = [look.sizes.condition for look in history]
    if conditions[-1] is not None:
        yield conditions[-1]
        kappa = [nan if each is None else each.facts["κ"] for each in conditions]
        yield CONDITION.model_copy(update={"measured": (_over_steps("whole model", history, kappa),)})
    stacks = list(dict.fromkeys(stack for look in history for stack in look.streams.sizes))
    if stacks:
        yield _streams(history, stacks)


def last_stack(homes: Homes) -> str | None:
    """The one from which the loss is read: the one that attends to another, else the last in the model's order."""
    crossing = [stack for stack, _, kind in homes.values() if kind.startswith(CROSS)]
    return next(reversed(crossing or [stack for stack, _, _ in homes.values()]), None)


def weakest_by_stack(look: Look, homes: Homes) -> dict[str, Weakest]:
    """At one step, where a stack has layers to compare; those are counted from 0.

    A layer without any gradient was left out of this step; where some are not finite, nothing can be compared.
    """
    stacks = over_kinds(_by_layer(look.sizes.gradients, homes))
    trained = {stack: {layer: norm for layer, norm in each.items() if norm} for stack, each in stacks.items()}
    return {
        stack: weakest(each) for stack, each in trained.items() if len(each) > 1 and all(map(isfinite, each.values()))
    }


def _weakest(history: Sequence[Look], homes: Homes) -> Iterable[Measure]:
    """The stack that is judged comes last."""
    found = [weakest_by_stack(look, homes) for look in history]
    judged = last_stack(homes)
    stacks = dict.fromkeys(stack for each in found for stack in each)
    if judged in stacks:
        lines = [
            _over_steps(stack, history, [each[stack].share if stack in each else nan for each in found])
            for stack in sorted(stacks, key=lambda stack: stack == judged)
        ]
        yield WEAKEST.model_copy(update={"measured": tuple(lines)})


def _departures(history: Sequence[Look]) -> dict[str, float]:
    left = [look for look in history if look.departed]
    facts = {"watched steps": float(len(history)), "steps outside the band": float(len(left))}
    facts["steps with single updates outside"] = float(sum(bool(look.outside) for look in history) - len(left))
    if left:
        facts |= {"first step outside": float(left[0].step), "most matrices outside": max(len(l.outside) for l in left)}
        facts["furthest outside"] = max((look.furthest[1] for look in left), key=distance)
    return facts


def _by_kind(measure: Measure, history: Sequence[Look], sizes: Sequence[Mapping[str, float]], homes: Homes) -> Measure:
    """A line per stack and kind, the median over layers, and a map per stack of the largest in each layer."""
    kinds: dict[str, list[str]] = {}
    layers: dict[str, dict[int, list[str]]] = {}
    for label in dict.fromkeys(label for each in sizes for label in each):
        kind = label
        if label in homes:
            stack, layer, kind = homes[label]
            layers.setdefault(stack, {}).setdefault(layer, []).append(label)
            kind = f"{stack} {kind}"
        kinds.setdefault(kind, []).append(label)
    measured = tuple(
        _over_steps(kind, history, [_summary(median, labels, each) for each in sizes]) for kind, labels in kinds.items()
    )
    grids = tuple(
        _map(stack, [[_summary(max, rows[layer], each) for each in sizes] for layer in sorted(rows)])
        for stack, rows in layers.items()
    )
    return measure.model_copy(update={"measured": measured, "grids": grids})


def _summary(of: Callable[[list[float]], float], labels: Sequence[str], sizes: Mapping[str, float]) -> float:
    present = [sizes[label] for label in labels if label in sizes]
    return of(present) if present else nan


def _over_steps(label: str, history: Sequence[Look], y: Sequence[float]) -> Series:
    return Series(label=label, x=tuple(float(look.step) for look in history), y=tuple(y))


def _map(stack: str, rows: Sequence[Sequence[float]]) -> Grid:
    return Grid(label=stack, values=tuple(map(tuple, rows)), rows="layer", columns="watched step")


def _attention(history: Sequence[Look], homes: Homes) -> Iterable[Measure]:
    moments = {}
    for look in history:
        with suppress(NotMeasurable):  # none of these matrices was trained then
            gradients, updates = (_by_layer(norms, homes) for norms in (look.sizes.gradients, look.sizes.moved))
            moments[look.step] = matrix_updates.relate(gradients, updates)
    if moments:
        measure = matrix_updates.over_training(moments)
        yield measure.model_copy(update={"measured": tuple(_what_first(line) for line in measure.measured)})


def _what_first(line: Series) -> Series:
    """`update decoder query`: a page has a panel for each first word, so that gradients stand beside updates."""
    where, _, what = line.label.rpartition(" ")
    return line.model_copy(update={"label": f"{what} {where}"})


def _by_layer(norms: Mapping[str, float], homes: Homes) -> matrix_updates.Norms:
    table: dict[tuple[str, str], dict[int, float]] = {}
    for label, norm in norms.items():
        if label in homes:
            stack, layer, kind = homes[label]
            table.setdefault((stack, kind), {})[layer] = norm
    return table


def _streams(history: Sequence[Look], stacks: Sequence[str]) -> Measure:
    """The end of every stack and its largest value as lines, all its layers as a map."""
    lines, maps = [], []
    for stack in stacks:
        depth = max(len(look.streams.sizes.get(stack, ())) for look in history)
        sizes = [look.streams.sizes.get(stack, (nan,) * depth) for look in history]
        peaks = [look.streams.peaks.get(stack, nan) for look in history]
        lines += [_over_steps(stack, history, [each[-1] for each in sizes])]
        lines += [_over_steps(f"{stack} largest", history, peaks)]
        maps.append(_map(stack, list(zip(*sizes, strict=True))))
    return STREAMS.model_copy(update={"measured": tuple(lines), "grids": tuple(maps)})


def _skipped(history: Sequence[Look], measured: set[str]) -> Iterable[Skipped]:
    if not history:
        yield Skipped(key=UPDATES.key, reason="no step was watched: fewer steps than `every` were taken")
        return
    reasons = {
        matrix_updates.MEASURE.key: matrix_updates.UNRECOGNISED,
        WEAKEST.key: "the stack from which the loss is read has no two trained layers to compare",
        CONDITION.key: history[-1].sizes.unconditioned,
        STREAMS.key: "no layer's output was seen, as when layers are compiled",
    }
    yield from (Skipped(key=key, reason=reason) for key, reason in reasons.items() if key not in measured)
