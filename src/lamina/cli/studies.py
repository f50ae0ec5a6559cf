"""The commands that repeat the tables and figures of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import REPORTS, EmitOption, EngineOption, GpusOption, ThreadsOption, app
from lamina.errors import UserError, unknown
from lamina.terminal import say

SCALES = ("tiny", "small", "paper", "micro")
FOLDER, LEDGER = Path("runs/studies"), Path("docs/ledger")
Folder = Annotated[Path, typer.Option(help="The folder for data, runs and results as JSON.")]


@app.command(
    rich_help_panel=REPORTS,
    epilog="Examples: lamina study · lamina study xiong-fig3 · lamina study all · lamina study b2t-fig3 --output b.md",
)
def study(
    name: Annotated[str, typer.Argument(help="The study, or all; without it, all studies are listed.")] = "",
    scale: Annotated[
        str,
        typer.Option(help="tiny: minutes on two cores; small: one GPU and a day; paper: the paper's sizes and data."),
    ] = "tiny",
    folder: Folder = FOLDER,
    ledger: Annotated[
        Path, typer.Option(help="A folder with numbers of runs that need not be trained again.")
    ] = LEDGER,
    output: Annotated[Path | None, typer.Option(help="The page: .html or .md; by default in the folder.")] = None,
    train: Annotated[
        bool,
        typer.Option(help="Whether to train runs; without, the result is that of the runs that have ended."),
    ] = True,
    engine: EngineOption = "local",
    threads: ThreadsOption = 1,
    gpus: GpusOption = 0,
    emit: EmitOption = "",
) -> None:
    """Repeat a table or figure of the papers, and say which of its claims hold.

    An interrupted study is continued by the same command. `all` runs those without an up-to-date result. With
    --no-train, a study that was interrupted has a result with fewer seeds, which says so. At scales small and paper,
    studies that train models print their configs and commands.
    """
    from lamina.files.progress import progress_bar
    from lamina.report.pages.page import form_of
    from lamina.studies.engines.choose import choose_engine
    from lamina.studies.engines.emit import emit_jobs
    from lamina.studies.ledger import prepare_runs, run_all, run_study
    from lamina.studies.pages.paper_scale import FILES, describe_paper_scale
    from lamina.studies.pages.study_page import save_study
    from lamina.studies.pages.terminal import show_all, show_result, show_studies

    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if not name:
        show_studies(folder)
        return
    if scale in ("small", "paper") and name in FILES:
        say(describe_paper_scale(name))
        return
    opened = choose_engine(engine, folder, threads=threads, gpus=gpus)
    if emit:
        runs = prepare_runs(name, folder, scale, (ledger,))  # type: ignore[arg-type]
        if not runs:
            raise UserError(f"{name}: all runs have ended, so there is nothing to emit")
        first, *_ = emit_jobs(emit, runs, folder / "jobs", threads=threads, gpus=gpus)
        say(f"{len(runs)} runs: {first}")
        return
    if name == "all":
        show_all(run_all(folder, scale, (ledger,), train=train, engine=opened))  # type: ignore[arg-type]
        return
    page = output or folder / f"{name}.{scale}.html"
    form_of(page)  # before the work, not after it
    with progress_bar() as progress:
        result = run_study(name, folder, scale, progress, (ledger,), train=train, engine=opened)  # type: ignore[arg-type]
    file = result.write(folder)
    save_study(result, page)
    show_result(result, file, page)


@app.command(rich_help_panel=REPORTS, epilog="Example: lamina study all && lamina ledger")
def ledger(
    folder: Folder = FOLDER,
    output: Annotated[Path, typer.Option(help="The folder of the ledger, to which results are added.")] = LEDGER,
) -> None:
    """Write the ledger: all claims of the papers, with the verdicts of the studies that were run."""
    from lamina.studies.pages.terminal import show_ledger
    from lamina.studies.publish import publish_ledger

    show_ledger(publish_ledger(folder, output), output)
