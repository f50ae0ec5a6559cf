"""The page of a search, and the same on the terminal: the best setting, all settings with intervals, and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table as TerminalTable

from lamina.diagnosis.measurement import Axes, Description, Series
from lamina.formatting import count, short, with_spread
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.section import FigureSection, anchor_of
from lamina.report.figures.style import part_styles
from lamina.report.pages.page import form_of, render, write_text
from lamina.report.tables import Table
from lamina.studies.samples import Sample
from lamina.studies.search.result import ScoredSetting, SearchResult
from lamina.terminal import open_console

REMARK = (
    "Mean ± half the 95 % interval over seeds (Student's t) of the metric on the validation split after the last step. "
    "Settings are chosen by the same numbers, so the best ones are too good by chance."
)


def save_search(result: SearchResult, file: Path, title: str = "Settings compared") -> None:
    """Write the page as .html or .md."""
    write_text(file, search_page(result, form_of(file), title))


def search_page(result: SearchResult, form: str, title: str) -> str:
    """The text of the page, as `html` or `md`."""
    return render(
        "search",
        form,
        title=title,
        conclusions=describe_best(result),
        settings=settings_table(result),
        by_seed=_seeds_table(result),
        remark=REMARK,
        unfinished=list(result.unfinished.items()),
        sections=[section] if (section := _figure(result)) else [],
    )


def show_search(result: SearchResult) -> None:
    """Print all settings, best first, and the best ones in words."""
    shown = settings_table(result)
    table = TerminalTable(box=None, pad_edge=False, header_style="bold")
    for heading in shown.headings:
        table.add_column(escape(heading), justify="right")
    for row in shown.rows:
        table.add_row(*map(escape, row))
    console = open_console(soft_wrap=False, markup=True)
    if not console.is_terminal:
        console.width = 200  # one line per setting, so that other programs can read it
    console.print(table)
    for sentence in (*describe_best(result), REMARK):
        console.print(f"\n{sentence}", soft_wrap=True, markup=False)
    for name, reason in result.unfinished.items():
        console.print(f"{name}: {reason}", soft_wrap=True, markup=False)


def describe_best(result: SearchResult) -> list[str]:
    """The best setting by its mean over seeds, and the mean of the best runs of each seed, in words."""
    best = result.best
    if best is None:
        return [f"No run has a value of {result.metric}."]
    seeds = count(len(best.scores.by_seed), "seed")
    return [
        f"Best setting by the mean over {seeds}: {best.setting}: {result.metric} {score_text(best.scores)}.",
        f"With the best setting of each seed, chosen for each on its own: {result.metric} "
        f"{score_text(result.best_of_each_seed)}.",
    ]


def settings_table(result: SearchResult) -> Table:
    """A row for each setting, best first."""
    keys = result.ranked[0].setting.keys
    rows = tuple(
        (
            *each.setting.cells,
            score_text(each.scores),
            *((short(min(each.scores.values)), short(max(each.scores.values))) if each.is_scored else ("–", "–")),
            str(len(each.scores.by_seed)),
            ", ".join(f"{number} {state}" for state, number in each.states.items()),
        )
        for each in result.ranked
    )
    return Table("", (*keys, result.metric, "lowest", "highest", "seeds", "unfinished"), rows)


def score_text(scores: Sample) -> str:
    """`69.4 ± 1.2`, with half the 95 % interval; without one for a single seed."""
    return with_spread(scores.mean, scores.half_width) if scores.values else "–"


def _seeds_table(result: SearchResult) -> Table:
    keys = result.ranked[0].setting.keys
    rows = tuple(
        (str(seed), *(chosen[0].cells if chosen else ("–",) * len(keys)), short(chosen[1]) if chosen else "–")
        for seed, chosen in result.chosen_by_seed.items()
    )
    return Table("The best setting of each seed", ("seed", *keys, result.metric), rows)


def _figure(result: SearchResult) -> FigureSection | None:
    """The metric against the number that has most values, a panel for each value of another key, lines for the rest."""
    varied = _varied(result.ranked)
    numeric = [key for key, values in varied.items() if all(isinstance(each, int | float) for each in values)]
    if not numeric:
        return None
    along = max(numeric, key=lambda key: len(varied[key]))
    others = [key for key in varied if key != along]
    apart = others[0] if len(others) > 1 else None
    groups: dict[str, dict[str, list[ScoredSetting]]] = {}
    for each in result.ranked:
        if each.is_scored:
            values = dict(zip((key for key, _ in each.setting.values), each.setting.cells, strict=True))
            panel = f"{apart} = {values[apart]}" if apart else result.metric
            line = ", ".join(f"{key} = {values[key]}" for key in others if key != apart) or result.metric
            groups.setdefault(panel, {}).setdefault(line, []).append(each)
    lines = sorted({line for group in groups.values() for line in group})
    styles = dict(zip(lines, part_styles(lines), strict=True))
    panels = [
        Panel(title, tuple(Curve(line, _series(groups[title][line], along), styles[line]) for line in sorted(group)))
        for title, group in sorted(groups.items())
    ]
    places = [float(each) for each in varied[along]]
    is_log = min(places) > 0 and max(places) >= 5 * min(places)
    about = Description(
        key="search",
        title=f"{result.metric[:1].upper()}{result.metric[1:]} against {along}",
        formula="",
        source="",
        look_for="Bands are 95 % intervals over seeds. A best value at an end of the axis calls for a wider search.",
        axes=Axes(x=along, y=result.metric, log_x=is_log),
    )
    return FigureSection(f"search-{anchor_of(along)}", about, panels) if panels else None


def _varied(ranked: Sequence[ScoredSetting]) -> dict[str, list[Any]]:
    """The different values of each key that has more than one."""
    found: dict[str, list[Any]] = {}
    for each in ranked:
        for key, value in each.setting.values:
            if value not in found.setdefault(key, []):
                found[key].append(value)
    return {key: values for key, values in found.items() if len(values) > 1}


def _series(line: Sequence[ScoredSetting], along: str) -> Series:
    points = sorted((float(dict(each.setting.values)[along]), each.scores) for each in line)
    halves = [scores.half_width or 0.0 for _, scores in points]
    means = tuple(scores.mean for _, scores in points)
    return Series(x=tuple(x for x, _ in points), y=means, spread=tuple(halves) if any(halves) else ())
