"""The commands that train, and that plan a training run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import TRAINING, EmitOption, EngineOption, GpusOption, Overrides, ThreadsOption, app
from lamina.errors import UserError
from lamina.terminal import say


@app.command(
    rich_help_panel=TRAINING,
    epilog="Examples: lamina train configs/smoke/translation.toml · lamina train own.toml model.residual=b2t "
    "train.steps=2000 --folder runs/b2t · lamina train runs/b2t (resumes it)",
)
def train(
    config: Annotated[str, typer.Argument(help="A TOML file, or the folder of a run to resume.")],
    overrides: Overrides = None,
    folder: Annotated[str | None, typer.Option(help="The run folder; by default runs/ and the file's name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Resume although config or data have changed.")] = False,
) -> None:
    """Train a model, or resume a run that was interrupted."""
    from lamina.training.signals import remember_early

    with remember_early():  # before torch is imported, which takes seconds
        from lamina.config import read_values
        from lamina.run_folder.folder import RunFolder
        from lamina.training.machine.bf16 import prepare_environment

        source = RunFolder(config).require_config() if Path(config).is_dir() else config
        prepare_environment(read_values(source, overrides or []))  # before torch is imported

        from lamina.api import train as train_model
        from lamina.report.terminal.runs import show_run
        from lamina.training.distributed.world import started_rank

        run = train_model(config, overrides or [], folder=folder, force=force)
        if started_rank() == 0:
            show_run(run.summary())
        sys.exit(run.ended.exit_code if run.ended else 1)


@app.command(rich_help_panel=TRAINING, epilog="Example: lamina plan own.toml --gpus 8 --teraflops 312")
def plan(
    config: Annotated[str, typer.Argument(help="A TOML file.")],
    overrides: Overrides = None,
    gpus: Annotated[int, typer.Option(min=1, help="Number of devices that share a batch.")] = 1,
    teraflops: Annotated[
        float, typer.Option(min=0.001, help="The peak of one device, in 10¹² operations a second.")
    ] = 100,
    efficiency: Annotated[float, typer.Option(min=0.01, max=1, help="The share of the peak that is reached.")] = 0.4,
) -> None:
    """Estimate parameters, memory per device, operations and time of a training run, without running it."""
    from lamina.report.terminal.runs import show_plan
    from lamina.runs.run import Run, read_config

    run = Run(read_config(config, overrides or []), "runs/plan")
    show_plan(run.plan(devices=gpus, teraflops=teraflops, efficiency=efficiency))


@app.command(
    rich_help_panel=TRAINING,
    epilog="Examples: lamina compare own.toml --residual post-ln,pre-ln,b2t · lamina compare own.toml --residual "
    "post-ln,resi-dual --depth 6,12,18 --seeds 3 train.steps=2000",
)
def compare(
    config: Annotated[str, typer.Argument(help="A TOML file.")],
    residual: Annotated[
        str, typer.Option(help="Schemes, separated by commas: b2t, or post-ln/pre-ln for encoder and decoder.")
    ],
    overrides: Overrides = None,
    depth: Annotated[
        str | None, typer.Option(help="Depths, separated by commas: 6,12, or 60-12 for encoder and decoder.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of each scheme and depth.")] = 1,
    folder: Annotated[
        str | None, typer.Option(help="Where the runs go; by default runs/, the file's name and -compared.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The report, .html or .md; by default in that folder.")] = None,
    engine: EngineOption = "local",
    threads: ThreadsOption = 1,
    gpus: GpusOption = 0,
    emit: EmitOption = "",
) -> None:
    """Train the same model under several schemes, and compare them in one report."""
    from lamina.api import compare as compare_schemes
    from lamina.api import prepare_comparison
    from lamina.report.terminal.runs import show_comparison
    from lamina.studies.compare import IncompleteComparison
    from lamina.studies.engines.choose import choose_engine
    from lamina.studies.engines.emit import emit_jobs

    place = Path(folder or f"runs/{Path(config).stem}-compared")
    file = output or place / "report.html"
    depths = depth.split(",") if depth else []
    opened = choose_engine(engine, place, threads=threads, gpus=gpus)
    if emit:
        runs = prepare_comparison(config, residual.split(","), depths, seeds, overrides=overrides or [], folder=place)
        first, *_ = emit_jobs(emit, runs, place / "jobs", threads=threads, gpus=gpus)
        say(f"{len(runs)} runs: {first}")
        return
    try:
        compared = compare_schemes(
            config,
            residual.split(","),
            depths,
            seeds,
            overrides=overrides or [],
            folder=place,
            report=file,
            engine=opened() if opened else None,
        )
    except IncompleteComparison as incomplete:
        if incomplete.report is not None:
            show_comparison(incomplete.report.summaries, incomplete.report.conclusions)
        raise
    show_comparison(compared.summaries, compared.conclusions)
    say(f"\nThe report: {file}")


@app.command(
    rich_help_panel=TRAINING,
    epilog="Examples: lamina search own.toml · lamina search own.toml search.seeds=3 search.train.epochs=[3,5,8] "
    "search.schedule.learning_rate=[1e-5,1e-4]",
)
def search(
    config: Annotated[str, typer.Argument(help="A TOML file with a section [search].")],
    overrides: Overrides = None,
    folder: Annotated[
        str | None, typer.Option(help="Where the runs go; by default runs/, the file's name and -search.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The page, .html or .md; by default in that folder.")] = None,
) -> None:
    """Train every combination of some settings with several seeds, and say which is best."""
    from lamina.api import search as search_settings
    from lamina.studies.search.page import show_search
    from lamina.studies.search.result import IncompleteSearch

    place = Path(folder or f"runs/{Path(config).stem}-search")
    file = output or place / "search.html"
    try:
        result = search_settings(config, overrides=overrides or [], folder=place, report=file)
    except IncompleteSearch as incomplete:
        show_search(incomplete.result)
        say(f"\nThe page: {file}")
        raise
    show_search(result)
    say(f"\nThe page: {file}")


@app.command(
    rich_help_panel=TRAINING,
    epilog="Examples: lamina advise own.toml --budget 30m · lamina advise own.toml --budget 2h --residual pre-ln,b2t "
    "--depth 6,12 --rates 5e-4,1e-3,2e-3",
)
def advise(
    config: Annotated[str, typer.Argument(help="A TOML file.")],
    overrides: Overrides = None,
    budget: Annotated[
        str, typer.Option(help="The time of all runs together, of the processor (or of a GPU): 90s, 30m, 2h.")
    ] = "30m",
    residual: Annotated[
        str | None, typer.Option(help="Schemes, separated by commas; by default the config's and five others.")
    ] = None,
    depth: Annotated[
        str | None, typer.Option(help="Depths, separated by commas; by default the config's, half and twice it.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Learning rates, separated by commas; by default around the config's.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds of the last two candidates.")] = 2,
    folder: Annotated[
        str | None, typer.Option(help="Where the runs go; by default runs/, the file's name and -advice.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The page, .html or .md; by default in that folder.")] = None,
    engine: EngineOption = "local",
    threads: ThreadsOption = 1,
    gpus: GpusOption = 0,
) -> None:
    """Find out which scheme, depth and learning rate suit a model and its data, within a budget of time.

    Diagnoses rule out candidates, short runs of which the better ones continue decide between the others. An advice
    that was interrupted is continued by the same command.
    """
    from lamina.files.progress import progress_bar
    from lamina.studies.advice.advise import CONFIG
    from lamina.studies.advice.advise import advise as find_advice
    from lamina.studies.advice.page import show_advice
    from lamina.studies.engines.choose import choose_engine

    place = Path(folder or f"runs/{Path(config).stem}-advice")
    file = output or place / "advice.html"
    opened = choose_engine(engine, place, threads=threads, gpus=gpus)
    with progress_bar() as progress:
        advice = find_advice(
            config,
            budget=budget,
            schemes=residual.split(",") if residual else (),
            depths=depth.split(",") if depth else (),
            learning_rates=_read_rates(rates),
            seeds=seeds,
            overrides=overrides or [],
            folder=place,
            report=file,
            engine=opened() if opened else None,
            progress=progress,
        )
    show_advice(advice)
    say(f"\nThe page: {file}\nThe config: {place / CONFIG}")


def _read_rates(text: str | None) -> list[float]:
    try:
        return [float(each) for each in text.split(",")] if text else []
    except ValueError:
        raise UserError(f"--rates: {text!r} is not a list of learning rates, such as 5e-4,1e-3") from None


@app.command(rich_help_panel=TRAINING, epilog="Example: lamina average runs/b2t --last 10")
def average(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    last: Annotated[
        int | None, typer.Option(min=1, help="Number of last checkpoints; by default all that are kept.")
    ] = None,
) -> None:
    """Average the weights of a run's last checkpoints."""
    from lamina.runs.run import Run

    averaged = ", ".join(each.name for each in Run(run).average(last))
    say(f"The average of {averaged}: use it with lamina evaluate {run} --checkpoint average")
