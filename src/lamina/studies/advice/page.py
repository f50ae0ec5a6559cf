"""The page of an advice, the same on the terminal, and the config to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from rich.markup import escape
from rich.table import Table as TerminalTable

from lamina.config import to_toml_item
from lamina.diagnosis.measurement import Axes, Description, Series
from lamina.files.atomic import write_file
from lamina.formatting import count, duration
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.section import FigureSection
from lamina.report.figures.style import part_styles
from lamina.report.pages.page import form_of, render, write_text
from lamina.report.tables import Table
from lamina.studies.advice.outcome import CandidateOutcome, Recommendation
from lamina.studies.cells import depth_text
from lamina.terminal import open_console

HEADINGS = ("scheme", "depth", "width", "learning rate", "steps", "validation loss", "time of a step", "result")
REMARK = (
    "Validation loss: the mean negative log-likelihood, with the lowest and the highest of several seeds. Trials are "
    "short: their schedule is that of the config, compressed to their length, and a long training may rank candidates "
    "differently, above all by learning rate. The winner was chosen by the same losses, so its own is too good by "
    "chance. Models of all depths have about as many parameters as that of the config."
)
MOST_CURVES = 8


def save_advice(advice: Recommendation, file: Path) -> None:
    """Write the page as .html or .md."""
    write_text(file, advice_page(advice, form_of(file)))


def advice_page(advice: Recommendation, form: str) -> str:
    """The text of the page, as `html` or `md`."""
    return render(
        "advice",
        form,
        title="Advice on scheme, depth and learning rate",
        conclusions=advice.sentences(),
        candidates=_table([each for each in advice.outcomes if each.losses]),
        ruled_out=[(str(each.candidate), each.ruled_out) for each in advice.outcomes if each.ruled_out],
        not_tried=_not_tried(advice),
        remark=REMARK,
        sections=[_figure(advice)],
    )


def show_advice(advice: Recommendation) -> None:
    """Print the candidates, best first, and the advice in words."""
    shown = _table([each for each in advice.outcomes if each.losses])
    table = TerminalTable(box=None, pad_edge=False, header_style="bold")
    for heading in shown.headings:
        table.add_column(heading)
    for row in shown.rows:
        table.add_row(*map(escape, row))
    console = open_console(soft_wrap=False, markup=True)
    if not console.is_terminal:
        console.width = 200  # one line per candidate, so that other programs can read it
    console.print(table)
    for each in advice.outcomes:
        if each.ruled_out:
            console.print(f"Ruled out: {each.candidate}: {each.ruled_out}", soft_wrap=True, markup=False)
    for sentence in (*filter(None, [_not_tried(advice)]), *advice.sentences()):
        console.print(f"\n{sentence}", soft_wrap=True, markup=False)


def write_config(advice: Recommendation, values: Mapping[str, Any], file: Path) -> None:
    """Write the config with the advised settings; everything else is as it was given."""
    document = tomlkit.document()
    for sentence in advice.sentences():
        document.add(tomlkit.comment(sentence))
    advised = advice.chosen.candidate.values(values)
    for key in sorted(advised, key=lambda each: isinstance(advised[each], Mapping)):  # tables come last in TOML
        value = advised[key]
        document.add(key, _section(value) if isinstance(value, Mapping) else to_toml_item(value))
    write_file(file, tomlkit.dumps(document).encode())


def _section(values: Mapping[str, Any]) -> Any:
    section = tomlkit.table()
    for key, value in values.items():
        section.add(key, to_toml_item(value))
    return section


def _table(outcomes: Sequence[CandidateOutcome]) -> Table:
    rows = tuple(
        (
            "/".join(each.candidate.schemes),
            depth_text(each.candidate.depth),
            str(each.candidate.width),
            each.candidate.rate_text,
            f"{each.steps:,}",
            each.spread,
            duration(each.seconds_per_step),
            f"failed: {each.failed}" if each.failed else count(len(each.final.values), "seed"),
        )
        for each in outcomes
    )
    return Table("", HEADINGS, rows)


def _not_tried(advice: Recommendation) -> str:
    """The combinations that the budget left out, in words."""
    number = sum(not (each.losses or each.ruled_out) for each in advice.outcomes)
    if not number:
        return ""
    verb = "was" if number == 1 else "were"
    return f"{count(number, 'further combination')} did not fit the budget and {verb} not tried."


def _figure(advice: Recommendation) -> FigureSection:
    """The losses of the best candidates against steps."""
    shown = [each for each in advice.outcomes if each.final.values][:MOST_CURVES]
    styles = part_styles([str(each.candidate) for each in shown])
    curves = tuple(Curve(str(each.candidate), _series(each), style) for each, style in zip(shown, styles, strict=True))
    about = Description(
        key="advice",
        title="Validation loss of the candidates",
        formula="",
        source="",
        look_for=f"The best {len(shown)} candidates. A line ends where its candidate was given up.",
        axes=Axes(x="step", y="validation loss", log_x=True),
    )
    return FigureSection("losses", about, [Panel("Validation loss", curves)])


def _series(outcome: CandidateOutcome) -> Series:
    points = sorted((step, sample.mean) for step, sample in outcome.losses.items() if sample.values)
    return Series(x=tuple(float(step) for step, _ in points), y=tuple(mean for _, mean in points))
