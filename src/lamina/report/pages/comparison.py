"""The page of a comparison: one task under several schemes and depths, from the results of its runs.

Conclusions come first, then results with their spread over seeds, loss curves, the measurements and findings of the
diagnoses at the start and at the end, and samples.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lamina.diagnosis.measurement import Stage
from lamina.errors import UserError
from lamina.formatting import duration, size, with_spread
from lamina.report.figures.curves import PICTURES, draw_standalone
from lamina.report.findings import ShownFinding, overview, shown_findings
from lamina.report.labels import depth_name, scheme_name
from lamina.report.pages.comparison_figures import (
    STAGES,
    VALIDATION_LOSS,
    Diagnosed,
    Groups,
    diagnoses_of,
    group_runs,
    loss_sections,
    measured_sections,
)
from lamina.report.pages.diagnosis import scheme_cards
from lamina.report.pages.page import form_of, render, write_bytes, write_text
from lamina.report.run_results import RunResult
from lamina.report.tables import Table
from lamina.tasks.base import SampleOutput
from lamina.tasks.metric_tables import MetricTable, filled_tables


def save_comparison(
    runs: Sequence[RunResult], file: Path, conclusions: Sequence[str] = (), title: str = "Residual schemes compared"
) -> None:
    """Write the page as .html or .md, or its first loss curves alone as .svg, .pdf or .png."""
    if not runs:
        raise UserError(f"{file}: there is no run to report")
    form = form_of(file, PICTURES)
    if form in PICTURES:
        write_bytes(file, comparison_picture(runs, form))
    else:
        write_text(file, comparison_page(runs, form, conclusions, title))


def comparison_picture(runs: Sequence[RunResult], form: str) -> bytes:
    """The validation loss by scheme and depth, or the training loss where no run has validated."""
    sections = loss_sections(group_runs(runs))
    if not sections:
        raise UserError("none of the runs has a loss curve to draw; train them for a while first")
    return draw_standalone(sections[0].panels, sections[0].about.axes, form)


def comparison_page(runs: Sequence[RunResult], form: str, conclusions: Sequence[str], title: str) -> str:
    """The text of the page, as `html` or `md`."""
    groups = group_runs(runs)
    diagnosed = diagnoses_of(groups)
    return render(
        "comparison",
        form,
        title=title,
        conclusions=conclusions,
        results=_results(groups),
        metric_tables=_metric_tables(groups),
        unfinished=[(run.name, run.state, run.reason) for run in runs if run.state != "finished"],
        losses=loss_sections(groups),
        measured=measured_sections(diagnosed),
        overviews=[table for stage in STAGES if (table := _overview(diagnosed, stage))],
        findings=_findings(diagnosed),
        samples=_samples(groups),
        cards=scheme_cards(name for run in runs for name in run.schemes),
    )


def _results(groups: Groups) -> Table:
    """A row for each scheme, depth and setting; a cell says how many runs did not finish, as the papers' tables do."""
    metrics = list(dict.fromkeys(name for runs in groups.values() for run in runs for name in run.metrics))
    rows = tuple(
        (
            scheme_name(variant.schemes),
            depth_name(variant.layers),
            *(value for _, value in variant.settings),
            *(_score(runs, [run.metrics.get(metric) for run in runs]) for metric in metrics),
            _score(runs, [run.best_loss for run in runs]),
            _mean([run.seconds for run in runs], duration),
            _mean([run.memory for run in runs], size),
            str(len(runs)),
        )
        for variant, runs in groups.items()
    )
    keys = [key for key, _ in next(iter(groups)).settings]  # the same for all
    return Table("", ("scheme", "depth", *keys, *metrics, VALIDATION_LOSS, "time", "memory", "seeds"), rows)


def _metric_tables(groups: Groups) -> list[Table]:
    """The tables of metrics that the task declares; of several models, a table for each column with a column for each
    model."""
    declared = dict.fromkeys(
        table for runs in groups.values() for run in runs for table in filled_tables(run.tables, run.final)
    )
    return [shown for table in declared for shown in _metric_table(table, groups)]


def _metric_table(table: MetricTable, groups: Groups) -> Iterator[Table]:
    names = [row.name for row in table.all_rows]
    cells = {
        variant.name: [
            [_score(runs, [run.final.get(name) for run in runs]) if name else "" for name in row.metrics]
            for row in table.all_rows
        ]
        for variant, runs in groups.items()
    }
    if len(cells) == 1:
        (own,) = cells.values()
        rows = tuple((name, *row) for name, row in zip(names, own, strict=True))
        yield Table(table.title, (table.rows_are, *table.columns), rows)
        return
    for at, column in enumerate(table.columns):
        if any(row.metrics[at] for row in table.rows):
            rows = tuple((name, *(own[place][at] for own in cells.values())) for place, name in enumerate(names))
            yield Table(f"{table.title}: {column}", (table.rows_are, *cells), rows)


def _score(runs: Sequence[RunResult], values: Sequence[float | None]) -> str:
    """Mean and standard deviation over the finished runs, and the states of the others."""
    pairs = zip(runs, values, strict=True)
    known = [value for run, value in pairs if run.state == "finished" and value is not None]
    parts = []
    if known:
        parts.append(with_spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None))
    for state in dict.fromkeys(run.state for run in runs if run.state != "finished"):
        number = sum(run.state == state for run in runs)
        parts.append(state if number == len(runs) else f"{number} of {len(runs)} {state}")
    return "; ".join(parts) or "–"


def _mean(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return shown(statistics.fmean(known)) if known else "–"


def _overview(diagnosed: Diagnosed, stage: Stage) -> Table | None:
    found = {variant.name: stages[stage].findings for variant, stages in diagnosed.items() if stage in stages}
    return overview(found, caption=f"The worst finding of each check, {stage}")


def _findings(diagnosed: Diagnosed) -> list[ShownFinding]:
    """All warnings and failures, by model and stage."""
    return [
        finding
        for variant, stages in diagnosed.items()
        for stage, diagnosis in stages.items()
        for finding in shown_findings(diagnosis, of=f"{variant.name}, {stage}")
        if finding.severity in ("warning", "failure")
    ]


def _samples(groups: Groups) -> list[tuple[SampleOutput, list[tuple[str, str]]]]:
    """Each example once, with the output of the first run of every group."""
    found: dict[tuple[str, str], tuple[SampleOutput, list[tuple[str, str]]]] = {}
    for variant, runs in groups.items():
        for sample in next((run.samples for run in runs if run.samples), ()):
            _, outputs = found.setdefault((sample.source, sample.reference), (sample, []))
            outputs.append((variant.name, sample.output))
    return list(found.values())
