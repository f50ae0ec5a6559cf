"""A replayed step on a terminal: its numbers, the largest gradients, and the first examples of its batch."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table as RichTable

from lamina.report.pages.replay import compare_loss, example_table, matrix_table, summary_table
from lamina.report.tables import Table
from lamina.runs.replay import Replay
from lamina.terminal import open_console

SHOWN_MATRICES, SHOWN_EXAMPLES = 12, 8


def show_replay(replay: Replay, file: Path) -> None:
    """Print the step; `file` is its page."""
    console = open_console(markup=True)
    console.print(f"[bold]Step {replay.step:,} of {escape(str(replay.run))}[/]")
    if replay.divergence:
        console.print(f"[red]✗[/] {escape(replay.divergence)}")
    for name, value in summary_table(replay).rows:
        console.print(f"{name}: [bold]{escape(value)}[/]")
    if comparison := compare_loss(replay):
        console.print(f"[{'yellow' if replay.is_identical is False else 'dim'}]{escape(comparison)}[/]")
    for alarm in replay.alarms:
        console.print(f"[yellow]![/] {escape(str(alarm))}")
    if replay.observation is not None:
        console.print()
        console.print(_table(matrix_table(replay.observation, SHOWN_MATRICES)))
    console.print()
    console.print(_table(example_table(replay, SHOWN_EXAMPLES)))
    console.print(f"\nEvery layer and the whole batch: [bold]{escape(str(file))}[/]")


def _table(shown: Table) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold", caption=shown.remark, caption_justify="left")
    for heading in shown.headings:
        table.add_column(escape(heading))
    for row in shown.rows:
        table.add_row(*map(escape, row))
    return table
