"""A progress bar on standard error for long preparations; silent when that is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

Progress = Callable[[str, int, int | None], None]
"""Called repeatedly with the name of a stage, the number of examples done in it, and their total number if known."""

PATIENCE = 2.0
"""Seconds that work may take before a bar is shown, where it is usually done sooner."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(after: float = 0.0, quiet: bool = False) -> Iterator[Progress]:
    """One bar per stage.

    after: seconds after which the bars appear; work that is done sooner shows nothing.
    quiet: whether to show nothing at all.
    """
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
    bars = Bars(*columns, console=console, disable=quiet or not console.is_terminal)
    tasks: dict[str, int] = {}

    def show(stage: str, done: int, total: int | None) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(bars.task_ids[tasks[stage]], completed=done, total=total)

    if bars.disable:
        yield show
        return
    if not after:
        with bars:
            yield show
        return
    appearing = Timer(after, bars.start)  # a thread, because work may report rarely
    appearing.daemon = True
    appearing.start()
    try:
        yield show
    finally:
        appearing.cancel()
        appearing.join()
        if bars.live.is_started:
            bars.stop()
