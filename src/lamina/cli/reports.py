"""The commands that list, diagnose and report runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import REPORTS, app
from lamina.errors import UserError
from lamina.run_folder.checkpoints import BEST
from lamina.terminal import say

MOST_NAMED = 4  # missing files that are named; of more, their number is given


@app.command(rich_help_panel=REPORTS, epilog="Examples: lamina runs · lamina runs runs/own-compared")
def runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs, at any depth.")] = Path("runs"),
) -> None:
    """List the runs in a folder with their state, step and metric."""
    from lamina.report.terminal.runs import show_listing
    from lamina.runs.listing import list_runs

    show_listing(list_runs(folder), folder)


@app.command(
    rich_help_panel=REPORTS,
    epilog="Examples: lamina diagnose configs/smoke/translation.toml model.residual=b2t · lamina diagnose runs/b2t · "
    "lamina diagnose one.toml other.toml --output why.md · lamina diagnose path/to/bert",
)
def diagnose(
    what: Annotated[
        list[str],
        typer.Argument(
            help="Configs, run folders, folders with config.json and safetensors, stored diagnoses (.json); "
            "options as key=value."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Number of models initialised for a config.")] = 5,
    batches: Annotated[int, typer.Option(min=1, help="Number of batches each model is run on.")] = 4,
    tokens: Annotated[int, typer.Option(min=1, help="Number of tokens in a batch.")] = 256,
    checkpoint: Annotated[str, typer.Option(help="For runs: best, latest, average or step-00001000.")] = BEST,
    depths: Annotated[
        str,
        typer.Option(
            help="Numbers of layers for the change of the output against depth; up to 100 in the paper, which takes "
            "minutes where the model is wide."
        ),
    ] = "2,4,8,16",
    learning_rate: Annotated[
        float | None, typer.Option(help="The highest learning rate of training; by default that of the config.")
    ] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Steps in which the learning rate rises to that.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out the measures that take most of the time, and name them.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The page: .html, .md, or .json for the numbers.")] = Path("why.html"),
) -> None:
    """Measure why a model trains or does not: print the findings and write a page with all figures."""
    from lamina.api import diagnose_paths
    from lamina.files.progress import progress_bar
    from lamina.report.pages.diagnosis import save_diagnoses
    from lamina.report.pages.page import form_of
    from lamina.report.terminal.diagnosis import show_diagnoses
    from lamina.runs.diagnose import Extent

    form_of(output, others=("json",))  # before the work, not after it
    extent = Extent(
        seeds,
        batches,
        tokens,
        checkpoint,
        output_depths=_read_depths(depths),
        learning_rate=learning_rate,
        warmup=warmup,
        quick=quick,
    )
    with progress_bar() as progress:
        left_out: list[Path] = []
        diagnoses = diagnose_paths(what, extent, progress, left_out.append)
    save_diagnoses(diagnoses, output)
    show_diagnoses(diagnoses, output, left_out)


@app.command(rich_help_panel=REPORTS, epilog="Example: lamina replay runs/b2t --step 1250")
def replay(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    step: Annotated[int, typer.Option(min=1, help="The step to repeat, such as one whose loss has a spike.")],
    output: Annotated[Path, typer.Option(help="The page: .html or .md.")] = Path("step.html"),
) -> None:
    """Repeat one step of a run from the checkpoint before it, and show it from inside."""
    from lamina.files.progress import progress_bar
    from lamina.report.pages.page import form_of
    from lamina.report.pages.replay import save_replay
    from lamina.report.terminal.replay import show_replay
    from lamina.runs.run import Run

    form_of(output)  # before the work, not after it
    with progress_bar() as progress:
        replayed = Run(run).replay(step, progress)
    save_replay(replayed, output)
    show_replay(replayed, output)


def _read_depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"depths are numbers of layers, separated by commas, such as 2,8,32, not {text!r}") from None


@app.command(
    rich_help_panel=REPORTS,
    epilog="Examples: lamina report runs/own-compared/* --output compared.html · lamina report runs/b2t --live",
)
def report(
    runs: Annotated[list[str], typer.Argument(help="Run folders, all of one task; files among them are left out.")],
    output: Annotated[
        str, typer.Option(help="The page, .html or .md; or its first curves alone, .svg, .pdf or .png.")
    ] = "report.html",
    title: Annotated[str, typer.Option(help="Its heading.")] = "",
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Write no file: show the page in a browser of this machine, up to date while runs train."
        ),
    ] = False,
) -> None:
    """Compare finished, failed or unfinished runs on one page."""
    from lamina.report.comparison_report import ComparisonReport, check_report_file
    from lamina.report.terminal.runs import show_comparison

    if live:
        _serve(runs, title)
        return
    file = check_report_file(output)
    compared = ComparisonReport.read(runs)
    compared.save(file, title)
    show_comparison(compared.summaries, compared.conclusions)
    if compared.left_out:
        left_out = ", ".join(map(str, compared.left_out))
        say(f"\nLeft out, as files or as runs that were replaced: {left_out}")
    if compared.missing:
        first = ", ".join(map(str, compared.missing[:MOST_NAMED]))
        others = len(compared.missing) - MOST_NAMED
        more = f" and {others} more" if others > 0 else ""
        say(f"\nNot measured, so not shown: {first}{more}; lamina diagnose RUN measures them")
    say(f"\nThe report: {file}")


def _serve(runs: list[str], title: str) -> None:
    """Serve the page of runs until Ctrl-C."""
    from lamina.report.live import LivePage, LiveServer

    for run in runs:
        if not Path(run).is_dir():
            raise UserError(f"{run}: no such run folder; start the run first, then lamina report {run} --live")
    with LiveServer(LivePage(runs, title)) as server:
        say(f"The report, up to date while the runs train: {server.url} (Ctrl-C ends it)")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("Ended.")
