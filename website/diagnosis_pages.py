"""Diagnosis explained: a page of all measures and one of all checks, each with a sick and a healthy example.

Explanations come from the files of the measures and checks, and the examples are diagnosed by the build.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Sequence
from html import escape

from lamina.diagnosis.checks import all_checks
from lamina.diagnosis.checks.base import Check
from lamina.diagnosis.measurement import Grid
from lamina.diagnosis.measures import all_measures
from lamina.diagnosis.measures.base import Measure
from lamina.diagnosis.results import Diagnosis
from lamina.report.figures.panels import MeasuredModel, choose_panels
from lamina.report.figures.section import FigureSection, TitledPicture
from lamina.report.figures.style import LineStyle
from lamina.report.findings import ShownFinding, shown_findings
from lamina.report.labels import name_of
from lamina.report.tables import Table, fact_table
from sick_and_healthy import OF_CHECK, diagnosed, examples_of

STYLES = {"sick": LineStyle("#D55E00", marker="s"), "healthy": LineStyle("#0072B2")}
MOST_PANELS, MOST_ROWS = 4, 8
"""How many figures and facts of a measure are shown."""


def measures_page(chosen: Collection[str] | None = None) -> str:
    """Every measure in the order of a report; examples of the `chosen` ones only, if given."""
    parts = [
        "# Measures\n\nWhat a diagnosis measures, in the order of its page: the explanation of each from its file, and "
        "a sick and a healthy example, diagnosed by this build. [Checks](checks.md) turn them into findings.\n"
    ]
    for measure in all_measures():
        read_by = [f"[{each.key}](checks.md#{each.key})" for each in all_checks() if measure.key in each.reads]
        example = measure_example(measure) if chosen is None or measure.key in chosen else ""
        parts.append(
            f"## {measure.title} {{ #{measure.key} }}\n\n`{measure.key}` · {measure.source}"
            f"{' · read by ' + ', '.join(read_by) if read_by else ''}\n\n"
            f"{_documentation(sys.modules[type(measure).__module__])}\n\n"
            f"**What to look for.** {measure.look_for}\n\n{example}"
        )
    return "\n".join(parts)


def checks_page(chosen: Collection[str] | None = None) -> str:
    """Every check: its question, a sick and a healthy example, what it reads, and its thresholds."""
    parts = [
        "# Checks\n\nEach check reads [measures](measures.md) and yields findings. The explanations are those of the "
        "checks' files, and the examples were diagnosed by this build.\n"
    ]
    for check in all_checks():
        example = check_example(check) if chosen is None or check.key in chosen else ""
        parts.append(
            f"## {check.key}\n\n{_documentation(sys.modules[type(check).__module__])}\n\n{example}"
            f"Reads {', '.join(f'[{key}](measures.md#{key})' for key in check.reads)}.\n"
        )
        fields = check.Thresholds.model_fields
        if fields:
            rows = [f"| `{name}` | {each.default} | {_one_line(each.description)} |" for name, each in fields.items()]
            parts.append("\n".join(["| threshold | default | |", "| --- | --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def check_example(check: Check) -> str:
    """What the check finds in the two models."""
    examples = OF_CHECK[check.key]
    sick, healthy = diagnosed(examples)
    found = _findings("Sick", examples.sick, sick, check.key)
    return found + _findings("Healthy", examples.healthy, healthy, check.key)


def _findings(state: str, model: str, diagnosis: Diagnosis, check: str) -> str:
    found = "\n".join(_finding(each) for each in shown_findings(diagnosis) if each.check == check)
    return f'**{state}:** {model}.\n\n<ul class="findings">\n{found}\n</ul>\n\n'


def _finding(finding: ShownFinding) -> str:
    remedies = "; or ".join(
        " ".join(filter(None, (escape(each.words), ", ".join(f"<code>{escape(code)}</code>" for code in each.code))))
        for each in finding.remedies
    )
    advice = f"<br><b>What to do:</b> {remedies}." if remedies else ""
    severity = f"<b>{finding.sign} {finding.severity}</b>"
    return f'<li class="{finding.severity}">{severity}: {escape(finding.sentence)}.{advice}</li>'


def measure_example(measure: Measure) -> str:
    """The figures and facts of both models side by side."""
    examples = examples_of(measure.key)
    models = [
        MeasuredModel(name, STYLES[name], found)
        for name, diagnosis in zip(STYLES, diagnosed(examples), strict=True)
        for found in diagnosis.measurements
        if found.key == measure.key
    ]
    panels = choose_panels(models) if models else []
    coloured = any(curve.name in STYLES for panel in panels for curve in panel.curves)
    opening = f"{_key('sick', coloured)}: {examples.sick}. {_key('healthy', coloured)}: {examples.healthy}.\n\n"
    if not models:
        return opening + "It could not be measured in either.\n"
    section = FigureSection(f"example-{measure.key}", models[0].measurement.about, panels, _maps(models))
    pictures = section.pictures
    if section.maps:
        groups, bar = section.map_pictures
        pictures = [*pictures[: MOST_PANELS - 2], *next(iter(groups.values()))]
    drawn = "\n".join(map(_figure, pictures[:MOST_PANELS]))
    figures = f'<div class="examples" data-search-exclude>\n{drawn}\n</div>\n\n' if drawn else ""
    more = len(pictures) - MOST_PANELS
    rest = f"{more} further figures are on the page of a diagnosis.\n\n" if more > 0 else ""
    facts = fact_table({model.name: model.measurement for model in models}, alone=False)
    return opening + figures + rest + (_table(facts) if facts and not drawn else "")


def _maps(models: Sequence[MeasuredModel]) -> dict[str, list[tuple[str, Grid]]]:
    """The first map of each model, side by side."""
    grids = [(model.name, model.measurement.grids[0]) for model in models if model.measurement.grids]
    return {name_of(grids[0][1]): grids} if grids else {}


def _figure(shown: TitledPicture) -> str:
    return f"<figure><figcaption>{escape(shown.title)}</figcaption>{shown.picture}</figure>"


def _table(table: Table) -> str:
    rows = [f"| {' | '.join(_one_line(cell) for cell in row)} |" for row in table.rows[:MOST_ROWS]]
    head = [f"| {' | '.join(table.headings)} |", f"|{' --- |' * len(table.headings)}"]
    return "\n".join([*head, *rows]) + "\n\n"


def _key(name: str, coloured: bool) -> str:
    """The name of a model, in the colour of its line where the figures have one line for each."""
    return f'<b class="key {name}">{name.capitalize()}</b>' if coloured else f"**{name.capitalize()}**"


def _documentation(module: object) -> str:
    """The docstring of a module: its indented formulas are code in Markdown too, where nothing is escaped."""
    lines = inspect.cleandoc(module.__doc__ or "").splitlines()
    return "\n".join(line if line.startswith("    ") else line.replace("<", "&lt;") for line in lines)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
