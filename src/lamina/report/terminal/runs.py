"""Runs on a terminal: the summary of one, a table of several, the scores of an evaluation, the plan of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lamina.formatting import duration, printable, short, size
from lamina.generate.scoring import perplexity
from lamina.runs.listing import ListedRun
from lamina.runs.plan import Plan
from lamina.runs.summary import Evaluation, RunSummary
from lamina.tasks.metric_tables import MetricTable, detail_metrics, filled_tables
from lamina.terminal import open_console


def show_run(run: RunSummary) -> None:
    """Print how a run ended, its best validation and its final metrics."""
    console = open_console(markup=True)
    reason = f": {escape(run.reason)}" if run.reason else ""
    console.print(f"{escape(run.name)}: [bold]{run.state}[/] at step {run.step:,}{reason}")
    if run.best_nll is not None:
        best = f"{run.best_nll:.4f} (perplexity {perplexity(run.best_nll):.2f})"
        console.print(f"best validation nll {best} at step {run.best_step:,}")
    if run.best_metric is not None:
        name, value, step = run.best_metric
        console.print(f"best validation {name} {value:.4g} at step {step:,}")
    if run.final:
        _print_scores(console, {"valid": run.final}, run.tables)


def show_comparison(runs: Sequence[RunSummary], conclusions: Sequence[str] = ()) -> None:
    """Print a row for each run, then the conclusions.

    A run that is not finished has its state in place of metrics, as in the papers' tables.
    """
    apart = {"loss", "nll"}.union(*(detail_metrics(run.tables) for run in runs))
    metrics = list(dict.fromkeys(name for run in runs for name in run.final if name not in apart))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", style="cyan", no_wrap=True)
    for heading in ("steps", "best nll", *map(escape, metrics)):
        table.add_column(heading, justify="right")
    for run in runs:
        best = "–" if run.best_nll is None else f"{run.best_nll:.4f}"
        cells = [f"{run.final[name]:.2f}" if name in run.final else "–" for name in metrics]
        if run.state != "finished":
            colour = "yellow" if run.state == "too short" else "red"
            cells = [f"[{colour}]{run.state}[/]", *[""] * (len(metrics) - 1)] if metrics else []
        shown = best if metrics or run.state == "finished" else run.state
        table.add_row(escape(run.name), f"{run.step:,}", shown, *cells)
    console = open_console(soft_wrap=False, markup=True)
    console.print(table)
    for run in runs:
        if run.reason:
            console.print(f"{run.name}: {run.reason}", soft_wrap=True, markup=False)
    for sentence in conclusions:
        console.print(f"\n{sentence}", soft_wrap=True, markup=False)


def show_listing(runs: Sequence[ListedRun], folder: Path) -> None:
    """Print a row for each run of a folder; a run that cannot be read is named with the reason below the table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in _LISTING.items():
        table.add_column(heading, justify=justify, overflow="fold")
    for each in runs:
        steps = f"{each.step:,}" + (f" of {each.steps:,}" if each.steps else "") if each.step is not None else "–"
        best = "–" if each.best_nll is None else f"{each.best_nll:.4f}"
        metric = "–" if each.metric is None else f"{each.metric[0]} {each.metric[1]:.4g}"
        name = printable(str(each.path.relative_to(folder)), 60)
        table.add_row(escape(name), each.task or "–", each.state, steps, best, escape(metric), each.updated or "–")
    console = open_console(markup=True)
    if not console.is_terminal:
        console.width = 200  # one line per run, so that other programs can read it
    console.print(table)
    for each in runs:
        if each.problem:
            console.print(printable(each.problem, 400), markup=False)


_LISTING: dict[str, Literal["left", "right"]] = {
    "run": "left", "task": "left", "state": "left", "step": "right", "best nll": "right", "metric": "right",
    "updated (UTC)": "left",
}  # fmt: skip


def show_evaluation(evaluation: Evaluation) -> None:
    """Print the metrics of each set, and the signatures that make them comparable."""
    console = open_console(markup=True)
    _print_scores(console, evaluation.scores, evaluation.tables)
    for name, coverage in evaluation.coverage.items():
        if coverage.left_out:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in coverage.left_out.items())
            counts = f"{coverage.evaluated:,} of {coverage.total:,}"
            console.print(f"{name}: evaluated on {counts} examples; left out: {reasons}", markup=False)
    for name, signature in evaluation.signatures.items():
        console.print(f"{name}: {signature}", style="dim", markup=False)


def show_plan(plan: Plan) -> None:
    """Print memory per device with and without activation checkpointing, operations and time."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("memory per device", style="cyan")
    table.add_column("without checkpointing", justify="right")
    table.add_column("with checkpointing", justify="right")
    for name in ("weights", "gradients", "optimiser"):
        table.add_row(name, size(getattr(plan, name)), size(getattr(plan, name)))
    table.add_row("activations", size(plan.activations), size(plan.activations_checkpointed))
    table.add_row("total", size(plan.memory), size(plan.memory_checkpointed), style="bold")
    console = open_console(soft_wrap=False, markup=True)
    console.print(f"{plan.parameters:,.0f} parameters\n")
    console.print(table)
    batch = f"{plan.tokens_per_step:,.0f} {plan.size_unit}"
    console.print(f"\n{_operations(plan.flops_per_step)} a step of {batch}, {duration(plan.seconds)} in all")
    console.print()
    for assumption in plan.assumptions:
        console.print(assumption, style="dim", markup=False)


def _operations(number: float) -> str:
    """`1.25 teraFLOPs`, or `0.43 gigaFLOPs` for a small model."""
    return f"{short(number / 1e12)} teraFLOPs" if number >= 1e12 else f"{short(number / 1e9)} gigaFLOPs"


def _print_scores(console: Console, scores: Mapping[str, Mapping[str, float]], tables: Sequence[MetricTable]) -> None:
    """Print a row of metrics for each set, then the tables of metrics that the task declares."""
    console.print(_scores_table(scores, detail_metrics(tables)))
    for which, values in scores.items():
        for shown in filled_tables(tables, values):
            console.print(f"\n{escape(shown.title)}, {escape(which)}")
            console.print(_metric_table(shown, values))


def _metric_table(shown: MetricTable, values: Mapping[str, float]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(escape(shown.rows_are), style="cyan")
    for heading in shown.columns:
        table.add_column(escape(heading), justify="right")
    for row in shown.all_rows:
        cells = ("" if value is None else f"{value:.2f}" for value in row.read(values))
        table.add_row(escape(row.name), *cells, style="bold" if row is shown.means else None)
    return table


def _scores_table(scores: Mapping[str, Mapping[str, float]], apart: Set[str]) -> Table:
    """The metrics of each set, without those that stand in tables of their own."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("set", style="cyan")
    names = list(dict.fromkeys(name for values in scores.values() for name in values if name not in apart))
    for name in names:
        table.add_column(escape(name), justify="right")
    for which, values in scores.items():
        table.add_row(escape(which), *(f"{values[name]:.4g}" if name in values else "–" for name in names))
    return table
