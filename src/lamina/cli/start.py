"""The commands to begin with: the demo, the residual schemes, data for training, and a look at the machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.app import START, Overrides, app
from lamina.cli.completion import complete_scheme, complete_task
from lamina.terminal import say

if TYPE_CHECKING:
    from lamina.data.catalogue import Source


@app.command(rich_help_panel=START, epilog="Example: lamina demo --folder /tmp/demo")
def demo(
    folder: Annotated[Path, typer.Option(help="The folder of data, runs and report.")] = Path("lamina-demo"),
    steps: Annotated[int, typer.Option(min=1, help="Updates of each run.")] = 700,
) -> None:
    """Train a deep model under five residual schemes on an embedded language, and report which train and why."""
    from lamina.studies.demo import run_demo

    run_demo(folder, steps)


@app.command(rich_help_panel=START, epilog="Examples: lamina schemes · lamina schemes resi-dual")
def schemes(
    name: Annotated[
        str | None,
        typer.Argument(help="One scheme, to see its equation, drawing and options.", autocompletion=complete_scheme),
    ] = None,
) -> None:
    """List the residual schemes, or show one."""
    from lamina.report.terminal.schemes import show_scheme, show_table

    if name is None:
        show_table()
    else:
        show_scheme(name)


@app.command(
    rich_help_panel=START,
    epilog="Examples: lamina init translation · lamina init classification --output configs/reviews.toml",
)
def init(
    task: Annotated[
        str | None, typer.Argument(help="The task; leave it out for a list.", autocompletion=complete_task)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; by default the task's name and .toml.", show_default=False)
    ] = None,
) -> None:
    """Write a commented config for a task, which trains on embedded data as it is."""
    from lamina.tasks import TASKS
    from lamina.training.config_template import write_template

    if task is None:
        say("\n".join(f"lamina init {name}" for name in TASKS))
        return
    file = write_template(task, output or Path(f"{task}.toml"))
    say(f"{file} is written: change it as you like, then train it with lamina train {file}")


@app.command(
    rich_help_panel=START,
    epilog="Examples: lamina prepare embedded-translation --output data/toy · lamina prepare iwslt14-de-en --folder "
    "downloads --output data/iwslt · lamina prepare own.toml tokenizer.size=8000",
)
def prepare(
    what: Annotated[str | None, typer.Argument(help="A named set, or a TOML file; leave it out for a list.")] = None,
    overrides: Overrides = None,
    output: Annotated[str | None, typer.Option(help="The folder of the store.")] = None,
    folder: Annotated[str | None, typer.Option(help="The folder of the source files.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a store made from other files.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show where the set comes from, and prepare nothing.")] = False,
    dropped: Annotated[bool, typer.Option("--dropped", help="List the lines that were left out.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check a store and its sources against their hashes.")
    ] = False,
) -> None:
    """Encode text as a store of tokens that training reads."""
    from lamina.data.prepare import prepare as prepare_store
    from lamina.data.sources import chosen_options
    from lamina.files.progress import progress_bar
    from lamina.report.terminal.stores import show_dropped, show_source, show_sources, show_store, verify_store

    if what is None:
        show_sources(_load_tasks())
    elif verify:
        sys.exit(0 if verify_store(what) else 1)
    elif show:
        show_source(what, _load_tasks)
    else:
        given = {"output": output, "folder": folder, "replace": replace or None}
        chosen = {name: value for name, value in given.items() if value is not None}
        options = chosen_options(what, overrides or [], chosen, _load_tasks)
        with progress_bar() as progress:
            store = prepare_store(options, progress)
        show_store(store)
        if dropped:
            show_dropped(store)


@app.command(rich_help_panel=START, epilog="Example: lamina doctor")
def doctor() -> None:
    """Show versions, threads, devices and bf16 support, check that training is deterministic, and advise settings."""
    from lamina.report.terminal.doctor import show_examination
    from lamina.training.machine.doctor import examine_machine

    show_examination(examine_machine())


def _load_tasks() -> Mapping[str, Source]:
    from lamina.tasks import data_sets  # not before it is needed: it imports torch

    return data_sets()
