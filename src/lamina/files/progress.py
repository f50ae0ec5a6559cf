"""A progress bar on standard error for long preparations; silent when that is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int | None], None]
"""Called repeatedly with the name of a stage, the number of examples done in it, and their total number if known."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """One bar per stage."""
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from lamina.terminal import open_console

    console = open_console(stderr=True, highlight=True, soft_wrap=False, markup=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, int] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(bars.task_ids[tasks[stage]], completed=done, total=total)

        yield show
