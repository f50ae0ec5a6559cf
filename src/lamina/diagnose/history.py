"""What a watch has seen, step by step, and the same as a diagnosis: series over steps, maps of layers over steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from statistics import median

from lamina.diagnose.results import Diagnosis, Grid, Measure, Series, Skipped
from lamina.diagnose.step_probe import StepSizes
from lamina.diagnose.stream_probe import StreamSizes
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.verdicts import judge

UPDATES = Measure(
    key="watched-updates",
    title="Updates over training",
    formula="|W_{t+1} − W_t| ÷ |W_t|, the median over layers",
    source="Liu et al. 2020, figures 5 and 11",
    look_for="Lines of one kind should move together with the learning rate. A line, or a layer in the map, that jumps "
    "away from the others shows where training goes wrong, often before the loss does.",
    x_label="step",
    y_label="relative update",
    log_y=True,
)
GRADIENTS = Measure(
    key="watched-gradients",
    title="Gradients over training",
    formula="‖∂L/∂W‖, the median over layers",
    source="Liu et al. 2020, figures 5 and 11",
    look_for="Queries and keys, inside the softmax, have smaller gradients than the others in every scheme; Adam evens "
    "that out. A kind or a layer that fades to nothing is no longer trained.",
    x_label="step",
    y_label="gradient norm",
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
    formula="√(mean x²) after the last layer",
    source="Xiong et al. 2020, Lemma 2, followed through training",
    look_for="A stream that keeps growing makes the upper layers count for less, and leaves half precision at 65,504.",
    x_label="step",
    y_label="root mean square",
    log_y=True,
)


@dataclass(frozen=True)
class Departure:
    """Updates that have left their band."""

    step: int
    matrix: str
    """The one that went furthest."""
    times: float
    """Its update, divided by the rate, is this many times the usual one."""
    outside: int
    total: int

    def __str__(self) -> str:
        return (
            f"step {self.step}: the update of {self.matrix} is {self.times:.3g} times its usual size at this rate, and "
            f"{self.outside} of {self.total} matrices have left their band; the loss may follow. Look at this batch, "
            "lower the learning rate or lengthen its warm-up, or clip the gradient"
        )


@dataclass(frozen=True)
class Look:
    """One watched step."""

    step: int
    sizes: StepSizes
    streams: StreamSizes
    outside: Mapping[str, float] = field(default_factory=dict)
    """The matrices whose update left its band, and how many times the usual it was."""

    def values(self) -> dict[str, float]:
        """Flat, for a log: `update/decoder.3.query` and so on."""
        found = {f"gradient/{name}": norm for name, norm in self.sizes.gradients.items()}
        found |= {f"update/{name}": norm for name, norm in self.sizes.updates.items()}
        found |= {f"stream/{stack}": layers[-1] for stack, layers in self.streams.sizes.items()}
        found |= {f"stream_peak/{stack}": peak for stack, peak in self.streams.peaks.items()}
        if self.sizes.condition is not None:
            found["condition"] = self.sizes.condition.facts["κ"]
        return found | {"updates_outside": float(len(self.outside))}


def diagnose_history(
    history: Sequence[Look], *, name: str, model: str, schemes: Sequence[str], options: VerdictOptions
) -> Diagnosis:
    measures = tuple(_measures(history)) if history else ()
    return Diagnosis(
        name=name,
        model=model,
        schemes=tuple(schemes),
        spread_over="batches",
        step=history[-1].step if history else None,
        measures=measures,
        skipped=tuple(_skipped(history)),
        verdicts=judge(measures, schemes=schemes, options=options),
    )


def _measures(history: Sequence[Look]) -> Iterable[Measure]:
    yield _by_kind(UPDATES, history, [look.sizes.updates for look in history]).model_copy(
        update={"facts": _departures(history)}
    )
    yield _by_kind(GRADIENTS, history, [look.sizes.gradients for look in history])
    conditions = [look.sizes.condition for look in history]
    if conditions[-1] is not None:
        yield conditions[-1]
        kappa = [nan if each is None else each.facts["κ"] for each in conditions]
        yield CONDITION.model_copy(update={"measured": (_over_steps("whole model", history, kappa),)})
    stacks = list(dict.fromkeys(stack for look in history for stack in look.streams.sizes))
    if stacks:
        yield _streams(history, stacks)


def _departures(history: Sequence[Look]) -> dict[str, float]:
    left = [look for look in history if look.outside]
    facts = {"watched steps": float(len(history)), "steps outside the band": float(len(left))}
    if left:
        facts |= {"first step outside": float(left[0].step), "most matrices outside": max(len(l.outside) for l in left)}
        facts["furthest outside"] = max((furthest(look.outside)[1] for look in left), key=_distance)
    return facts


def furthest(outside: Mapping[str, float]) -> tuple[str, float]:
    """The matrix whose update is furthest from its usual size, up or down, and how many times that it is."""
    return max(outside.items(), key=lambda item: _distance(item[1]))


def _distance(times: float) -> float:
    return max(times, 1 / times) if isfinite(times) else inf


def _by_kind(measure: Measure, history: Sequence[Look], sizes: Sequence[Mapping[str, float]]) -> Measure:
    """A line per stack and kind, the median over layers, and a map per stack of the largest in each layer."""
    kinds: dict[str, list[str]] = {}
    layers: dict[str, dict[int, list[str]]] = {}
    for name in dict.fromkeys(name for each in sizes for name in each):
        stack, layer, kind = split_label(name)
        kinds.setdefault(f"{stack} {kind}".strip(), []).append(name)
        if layer is not None:
            layers.setdefault(stack, {}).setdefault(layer, []).append(name)
    measured = tuple(
        _over_steps(kind, history, [_summary(median, names, each) for each in sizes]) for kind, names in kinds.items()
    )
    grids = tuple(
        Grid(
            label=stack,
            values=tuple(tuple(_summary(max, rows[layer], each) for each in sizes) for layer in sorted(rows)),
            rows="layer",
            columns="watched step",
        )
        for stack, rows in layers.items()
    )
    return measure.model_copy(update={"measured": measured, "grids": grids})


def split_label(name: str) -> tuple[str, int | None, str]:
    """The stack, layer and kind of `decoder.3.query`; what belongs to no layer is all kind."""
    stack, _, rest = name.rpartition(".")
    before, _, layer = stack.rpartition(".")
    return (before, int(layer), rest) if before and layer.isdigit() else ("", None, name)


def _summary(of: Callable[[list[float]], float], names: Sequence[str], sizes: Mapping[str, float]) -> float:
    present = [sizes[name] for name in names if name in sizes]
    return of(present) if present else nan


def _over_steps(label: str, history: Sequence[Look], y: Sequence[float]) -> Series:
    return Series(label=label, x=tuple(float(look.step) for look in history), y=tuple(y))


def _streams(history: Sequence[Look], stacks: Sequence[str]) -> Measure:
    ends = [
        _over_steps(stack, history, [look.streams.sizes.get(stack, (nan,))[-1] for look in history]) for stack in stacks
    ]
    peaks = [
        _over_steps(f"{stack} largest", history, [look.streams.peaks.get(stack, nan) for look in history])
        for stack in stacks
    ]
    return STREAMS.model_copy(update={"measured": (*ends, *peaks)})


def _skipped(history: Sequence[Look]) -> Iterable[Skipped]:
    if not history:
        yield Skipped(key=UPDATES.key, reason="no step was watched: fewer steps than `every` were taken")
        return
    if history[-1].sizes.condition is None:
        yield Skipped(key=CONDITION.key, reason=history[-1].sizes.unconditioned)
    if not any(look.streams.sizes for look in history):
        yield Skipped(key=STREAMS.key, reason="no layer's output was seen, as when layers are compiled")
