"""The commands that repeat the tables and figures of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import REPORTS, app
from lamina.errors import unknown

SCALES = ("tiny", "small", "paper", "micro")


@app.command(
    rich_help_panel=REPORTS,
    epilog="Examples: lamina study · lamina study xiong-fig3 · lamina study xiong-fig3 --output fig3.md",
)
def study(
    name: Annotated[str, typer.Argument(help="The study; without it, all studies are listed.")] = "",
    scale: Annotated[
        str,
        typer.Option(help="tiny: minutes on two cores; small: one GPU and a day; paper: the paper's sizes and data."),
    ] = "tiny",
    folder: Annotated[Path, typer.Option(help="The folder for data, runs and the result as JSON.")] = Path(
        "runs/studies"
    ),
    output: Annotated[Path | None, typer.Option(help="The page: .html or .md; by default in the folder.")] = None,
) -> None:
    """Repeat a table or figure of the papers, and say which of its claims hold."""
    from lamina.files.progress import progress_bar
    from lamina.report.pages.page import form_of
    from lamina.studies.ledger import run_study
    from lamina.studies.pages.study_page import save_study
    from lamina.studies.pages.terminal import show_result, show_studies

    if not name:
        show_studies(folder)
        return
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    page = output or folder / f"{name}.{scale}.html"
    form_of(page)  # before the work, not after it
    with progress_bar() as progress:
        result = run_study(name, folder, scale, progress)  # type: ignore[arg-type]
    file = result.write(folder)
    save_study(result, page)
    show_result(result, file, page)
