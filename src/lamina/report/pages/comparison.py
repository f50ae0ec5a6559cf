"""The page of a comparison: the same task under several schemes and depths, as told by the stories of runs.

What matters comes first, in the caller's sentences; then results with their spread over seeds, loss curves, what the
diagnoses at the start and at the end say, and a few samples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lamina.diagnosis.results import Diagnosis, Measure, Series, Verdict
from lamina.errors import UserError
from lamina.formatting import duration, size, with_spread
from lamina.report.figures.exhibit import Exhibit, anchor_of, exhibits
from lamina.report.figures.picture import PICTURES, draw_alone
from lamina.report.pages.diagnosis import SIGNS, cards, overview, readable
from lamina.report.pages.page import form_of, render, write_bytes, write_text
from lamina.report.pages.stages import joined
from lamina.report.pages.tables import Table
from lamina.report.run_results import RunStory
from lamina.tasks.base import SampleOutput

MOST_POINTS = 120
WHEN = ("at the start", "at the end")


def save_comparison(
    runs: Sequence[RunStory], file: Path, sentences: Sequence[str] = (), title: str = "Residual schemes compared"
) -> None:
    """Write `file` as .html or .md; as .svg, .pdf or .png its first curves alone.

    `sentences` say what matters, and open the page.
    """
    if not runs:
        raise UserError(f"{file}: there is no run to report")
    form = form_of(file, PICTURES)
    if form in PICTURES:
        write_bytes(file, comparison_picture(runs, form))
    else:
        write_text(file, comparison_page(runs, form, sentences, title))


def comparison_picture(runs: Sequence[RunStory], form: str) -> bytes:
    """The loss that decides, by scheme and depth: for a paper, a slide, a README."""
    names = _names_of_curves(runs)
    if not names:
        raise UserError("none of the runs has a curve to draw; train them for a while first")
    curve = _curve(names[0], _grouped(runs))
    return draw_alone(curve.panels, curve.scale, form)


def comparison_page(runs: Sequence[RunStory], form: str, sentences: Sequence[str], title: str) -> str:
    groups = _grouped(runs)
    return render(
        "comparison",
        form,
        title=title,
        sentences=sentences,
        results=_results(groups),
        failures=[(run.name, run.state, run.reason) for run in runs if run.state != "finished"],
        curves=[_curve(name, groups) for name in _names_of_curves(runs)],
        insides=_insides(groups),
        overviews=[table for when in WHEN if (table := _verdicts(groups, when))],
        verdicts=_sentences(groups),
        samples=_samples(groups),
        cards=cards(name for run in runs for name in run.scheme.split("/")),
        signs=SIGNS,
    )


Groups = Mapping[tuple[str, str], Sequence[RunStory]]
"""The runs of each scheme and depth, which differ in their seeds."""


def _grouped(runs: Iterable[RunStory]) -> Groups:
    groups: dict[tuple[str, str], list[RunStory]] = {}
    for run in runs:
        groups.setdefault((run.scheme, run.depth), []).append(run)
    return groups


def _results(groups: Groups) -> Table:
    """A row per scheme and depth; where runs failed it says so, as the papers' tables do."""
    metrics = list(dict.fromkeys(name for runs in groups.values() for run in runs for name in run.metrics))
    rows = tuple(
        (
            scheme,
            depth,
            *(_score(runs, metric) for metric in metrics),
            _mean([run.seconds for run in runs], duration),
            _mean([run.memory for run in runs], size),
            str(len(runs)),
        )
        for (scheme, depth), runs in groups.items()
    )
    return Table("", ("scheme", "depth", *metrics, "time", "memory", "seeds"), rows)


def _score(runs: Sequence[RunStory], metric: str) -> str:
    done = [run for run in runs if run.state == "finished"]
    values = [run.metrics[metric] for run in done if metric in run.metrics]
    told = []
    if values:
        told.append(with_spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None))
    for state in dict.fromkeys(run.state for run in runs if run.state != "finished"):
        number = sum(run.state == state for run in runs)
        told.append(state if number == len(runs) else f"{number} of {len(runs)} {state}")
    return "; ".join(told) or "–"


def _mean(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return shown(statistics.fmean(known)) if known else "–"


def _names_of_curves(runs: Iterable[RunStory]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name, points in run.curves.items() if points))


def _curve(name: str, groups: Groups) -> Exhibit:
    """One line per scheme, a panel per depth."""
    by_scheme: dict[str, list[Series]] = {}
    for (scheme, depth), runs in groups.items():
        lines = [run.curves[name] for run in runs if run.curves.get(name)]
        if lines:
            by_scheme.setdefault(scheme, []).append(_over_seeds(depth, lines))
    blank = Measure(
        key=name,
        title=name[:1].upper() + name[1:],
        formula="",
        source="",
        look_for="A line that stays high has not learnt; one that breaks off has diverged. "
        "Bands show the standard deviation over seeds.",
        x_label="step",
        y_label=name,
        log_y=_is_wide(lines for each in by_scheme.values() for lines in each),
    )
    models = [
        (scheme, (scheme,), [blank.model_copy(update={"measured": tuple(lines)})])
        for scheme, lines in by_scheme.items()
    ]
    return exhibits(models, anchor="curve-")[0]


def _is_wide(lines: Iterable[Series]) -> bool:
    """Whether one line would press all others flat, as a loss that explodes does."""
    found = [value for line in lines for value in line.y if math.isfinite(value)]
    return bool(found) and min(found) > 0 and max(found) > 100 * min(found)


def _over_seeds(label: str, lines: Sequence[Sequence[tuple[float, float]]]) -> Series:
    """Mean and standard deviation at each step that any run has; long curves as the means of stretches."""
    values: dict[float, list[float]] = {}
    for line in lines:
        for step, value in _stretches(line):
            values.setdefault(step, []).append(value)
    steps = tuple(sorted(values))
    means = tuple(_average(values[step]) for step in steps)
    spread = tuple(_deviation(values[step]) for step in steps)
    return Series(label=label, x=steps, y=means, spread=spread if len(lines) > 1 else ())


def _average(values: Sequence[float]) -> float:
    """Divided first: a loss that explodes must not overflow on its way into the mean."""
    return sum(value / len(values) for value in values)


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else 0.0


def _stretches(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Neighbours taken together until a picture can hold them; each stands at its last step."""
    width = math.ceil(len(line) / MOST_POINTS)
    parts = [line[at : at + width] for at in range(0, len(line), width)]
    return [(part[-1][0], _average([value for _, value in part])) for part in parts]


def _insides(groups: Groups) -> list[tuple[str, list[Exhibit]]]:
    """For each depth, what was measured in the models, at the start and at the end next to each other."""
    found = []
    for depth in dict.fromkeys(depth for _, depth in groups):
        models = [
            (scheme, (scheme,), joined(diagnosed))
            for (scheme, deep), runs in groups.items()
            if deep == depth and (diagnosed := _diagnosed(runs))
        ]
        if shown := exhibits(models, anchor=f"inside-{anchor_of(depth)}-"):
            found.append((depth, shown))
    return found


def _diagnosed(runs: Sequence[RunStory]) -> dict[str, Diagnosis]:
    """By moment, of the first run that has any."""
    for run in runs:
        if found := {
            when: readable(each) for when, each in zip(WHEN, (run.start, run.end), strict=True) if each is not None
        }:
            return found
    return {}


def _verdicts(groups: Groups, when: str) -> Table | None:
    found = {
        f"{scheme}, {depth}": diagnosed[when].verdicts
        for (scheme, depth), runs in groups.items()
        if when in (diagnosed := _diagnosed(runs))
    }
    table = overview(found)
    return table and replace(table, caption=f"The worst verdict of each kind, {when}")


def _sentences(groups: Groups) -> list[tuple[str, str, Verdict]]:
    """What is not fine: model, moment, verdict."""
    return [
        (f"{scheme}, {depth}", when, verdict)
        for (scheme, depth), runs in groups.items()
        for when, diagnosis in _diagnosed(runs).items()
        for verdict in diagnosis.verdicts
        if verdict.severity != "fine"
    ]


def _samples(groups: Groups) -> list[tuple[SampleOutput, list[tuple[str, str]]]]:
    """Each example once, with what the first run of every group made of it."""
    found: dict[tuple[str, str], tuple[SampleOutput, list[tuple[str, str]]]] = {}
    for (scheme, depth), runs in groups.items():
        for sample in next((run.samples for run in runs if run.samples), ()):
            _, outputs = found.setdefault((sample.source, sample.reference), (sample, []))
            outputs.append((f"{scheme}, {depth}", sample.output))
    return list(found.values())
