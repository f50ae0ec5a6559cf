"""The commands: each parses its arguments, calls one function and prints its result.

What a command needs is imported when it is called, so that `lamina --help` does not wait for torch.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.errors import FailedElsewhere, UserError
from lamina.run_folder.checkpoints import BEST

if TYPE_CHECKING:
    from lamina.runs.run import Run

app = typer.Typer(
    name="lamina",
    help="Train deep Transformers whose residual connections you choose, and measure why they do or do not train.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: lamina demo",
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if show:
        from lamina import __version__

        typer.echo(f"lamina {__version__}")
        raise typer.Exit


@app.command(epilog="Examples: lamina schemes · lamina schemes resi-dual")
def schemes(
    name: Annotated[str | None, typer.Argument(help="One scheme, to see its equation, drawing and options.")] = None,
) -> None:
    """List the residual schemes, or show one."""
    from lamina.report.terminal.schemes import show_scheme, show_table

    if name is None:
        show_table()
    else:
        show_scheme(name)


@app.command(
    epilog="Examples: lamina prepare embedded-translation --output data/toy · lamina prepare iwslt14-de-en --folder "
    "downloads --output data/iwslt · lamina prepare own.toml tokenizer.size=8000"
)
def prepare(
    what: Annotated[str | None, typer.Argument(help="A named set, or a TOML file; leave it out for a list.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that replace those of the file, as key=value.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="Where the store goes.")] = None,
    folder: Annotated[str | None, typer.Option(help="Where the source files are.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a store made from something else.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show where the set comes from, and prepare nothing.")] = False,
    dropped: Annotated[bool, typer.Option("--dropped", help="List the lines that were left out.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check a store and its sources against their hashes.")
    ] = False,
) -> None:
    """Turn text into a store of tokens that training reads."""
    from lamina.data.prepare import prepare as prepare_store
    from lamina.data.sources import chosen_options
    from lamina.files.progress import progress_bar
    from lamina.report.terminal.stores import show_dropped, show_source, show_sources, show_store, verify_store

    if what is None:
        show_sources()
    elif verify:
        sys.exit(0 if verify_store(what) else 1)
    elif show:
        show_source(what)
    else:
        given = {"output": output, "folder": folder, "replace": replace or None}
        chosen = {name: value for name, value in given.items() if value is not None}
        options = chosen_options(what, overrides or [], chosen)
        with progress_bar() as progress:
            store = prepare_store(options, progress)
        show_store(store)
        if dropped:
            show_dropped(store)


@app.command(
    epilog="Examples: lamina train configs/smoke/translation.toml · lamina train own.toml model.residual=b2t "
    "train.steps=2000 --folder runs/b2t · lamina train runs/b2t (goes on where it was)"
)
def train(
    config: Annotated[str, typer.Argument(help="A TOML file, or the folder of a run to go on with.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that replace those of the file, as key=value.")
    ] = None,
    folder: Annotated[str | None, typer.Option(help="The run folder; by default runs/ and the file's name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Go on though config or data have changed.")] = False,
) -> None:
    """Train a model, or go on with a run that was interrupted."""
    from lamina.config import read_values
    from lamina.run_folder.folder import RunFolder
    from lamina.training.bf16 import prepare_environment

    source = RunFolder(config).config if Path(config).is_dir() else config
    prepare_environment(read_values(source, overrides or []))  # before torch is imported

    from lamina.api import train as train_model
    from lamina.report.terminal.runs import show_run
    from lamina.training.distributed.world import started_rank

    run = train_model(config, overrides or [], folder=folder, force=force)
    if started_rank() == 0:
        show_run(run.summary())
    sys.exit(run.ended.exit_code if run.ended else 1)


@app.command(
    epilog="Examples: lamina evaluate runs/b2t --split test --checkpoint average · lamina evaluate runs/b2t "
    "length_penalty=1.2"
)
def evaluate(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Options of generation, as key=value.")] = None,
    split: Annotated[str, typer.Option(help="The split to evaluate on.")] = "valid",
    checkpoint: Annotated[str, typer.Option(help="best, latest, average or step-00001000.")] = BEST,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; by default that of the config.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Use int8 weights, on the CPU.")] = False,
) -> None:
    """Measure a trained model with the metrics of its task."""
    from lamina.report.terminal.runs import show_evaluation

    show_evaluation(_load(run, checkpoint, overrides, beam, int8).evaluate(split))


@app.command(
    epilog="Examples: lamina generate runs/b2t < source.txt > output.txt · lamina generate runs/lm method=sample "
    "top_p=0.9 --input prompts.txt · lamina generate runs/b2t --input source.txt --score target.txt"
)
def generate(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Options of generation, as key=value.")] = None,
    input_file: Annotated[str, typer.Option("--input", help="A file of lines; - reads standard input.")] = "-",
    output_file: Annotated[str, typer.Option("--output", help="Where outputs go; - for standard output.")] = "-",
    output_format: Annotated[str, typer.Option(help="text (a line for each line) or jsonl (with scores).")] = "text",
    to: Annotated[str | None, typer.Option(help="The language to translate into, where there are several.")] = None,
    prefix: Annotated[str, typer.Option(help="What every output has to start with.", show_default=False)] = "",
    score: Annotated[str | None, typer.Option(help="A file of targets to score instead of generating.")] = None,
    checkpoint: Annotated[str, typer.Option(help="best, latest, average or step-00001000.")] = BEST,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; by default that of the config.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Use int8 weights, on the CPU.")] = False,
) -> None:
    """Translate, summarise or continue lines of text, or score given targets."""
    from lamina.runs.generation import generate_file, score_file

    for override in overrides or []:
        if Path(override).is_file():
            raise UserError(f"{override} is a file, not an option: to read it, say --input {override}")
    if score is not None and prefix:
        raise UserError("--score takes targets as they are; --prefix is for outputs that are generated")
    loaded = _load(run, checkpoint, overrides, beam, int8)
    if score is None:
        generate_file(loaded, input_file, output_file, output_format=output_format, to=to, prefix=prefix)
    else:
        score_file(loaded, input_file, score, output_file, output_format=output_format, to=to)


def _load(path: str, checkpoint: str, overrides: list[str] | None, beam: int | None, int8: bool) -> Run:
    from lamina.api import load
    from lamina.config import read_overrides

    generation = read_overrides(overrides or [], example="length_penalty=1.2")
    generation |= {} if beam is None else {"method": "beam", "beam": beam}
    run = load(path, checkpoint, generation=generation)
    return run.quantise() if int8 else run


@app.command(epilog="Example: lamina plan own.toml --gpus 8 --teraflops 312")
def plan(
    config: Annotated[str, typer.Argument(help="A TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that replace those of the file, as key=value.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="How many devices share a batch.")] = 1,
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
    epilog="Examples: lamina diagnose configs/smoke/translation.toml model.residual=b2t · lamina diagnose runs/b2t · "
    "lamina diagnose one.toml other.toml --output why.md · lamina diagnose path/to/bert"
)
def diagnose(
    what: Annotated[
        list[str],
        typer.Argument(
            help="Configs, run folders, folders with config.json and safetensors, stored diagnoses (.json); "
            "options as key=value."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="How many models are initialised, of a config.")] = 5,
    batches: Annotated[int, typer.Option(min=1, help="How many batches each model is run on.")] = 4,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch.")] = 256,
    checkpoint: Annotated[str, typer.Option(help="Of runs: best, latest, average or step-00001000.")] = BEST,
    depths: Annotated[
        str,
        typer.Option(
            help="Numbers of layers for the change of the output against depth; up to 100 in the paper, which takes "
            "minutes where the model is wide."
        ),
    ] = "2,4,8,16",
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
    extent = Extent(seeds, batches, tokens, checkpoint, output_depths=_read_depths(depths))
    with progress_bar() as progress:
        diagnoses = diagnose_paths(what, extent, progress)
    save_diagnoses(diagnoses, output)
    show_diagnoses(diagnoses, output)


def _read_depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"depths are numbers of layers, separated by commas, such as 2,8,32, not {text!r}") from None


@app.command(epilog="Example: lamina average runs/b2t --last 10")
def average(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    last: Annotated[
        int | None, typer.Option(min=1, help="How many of the last checkpoints; by default all that are kept.")
    ] = None,
) -> None:
    """Average the weights of a run's last checkpoints."""
    from lamina.runs.run import Run

    averaged = ", ".join(each.name for each in Run(run).average(last))
    typer.echo(f"The average of {averaged}: use it with lamina evaluate {run} --checkpoint average")


@app.command(
    epilog="Examples: lamina compare own.toml --residual post-ln,pre-ln,b2t · lamina compare own.toml --residual "
    "post-ln,resi-dual --depth 6,12,18 --seeds 3 train.steps=2000"
)
def compare(
    config: Annotated[str, typer.Argument(help="A TOML file.")],
    residual: Annotated[
        str, typer.Option(help="Schemes, separated by commas: b2t, or post-ln/pre-ln for encoder and decoder.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that replace those of the file, as key=value.")
    ] = None,
    depth: Annotated[
        str | None, typer.Option(help="Depths, separated by commas: 6,12, or 60-12 for encoder and decoder.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds of each.")] = 1,
    folder: Annotated[
        str | None, typer.Option(help="Where the runs go; by default runs/, the file's name and -compared.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The report, .html or .md; by default in that folder.")] = None,
) -> None:
    """Train the same model under several schemes side by side, and put them into one report."""
    from lamina.api import compare as compare_schemes
    from lamina.report.terminal.runs import show_comparison
    from lamina.studies.compare import IncompleteComparison

    place = Path(folder or f"runs/{Path(config).stem}-compared")
    file = output or place / "report.html"
    depths = depth.split(",") if depth else []
    try:
        compared = compare_schemes(
            config, residual.split(","), depths, seeds, overrides=overrides or [], folder=place, report=file
        )
    except IncompleteComparison as incomplete:
        if incomplete.report is not None:
            show_comparison(incomplete.report.summaries, incomplete.report.conclusions)
        raise
    show_comparison(compared.summaries, compared.conclusions)
    typer.echo(f"\nThe report: {file}")


@app.command(epilog="Example: lamina report runs/own-compared/* --output compared.html")
def report(
    runs: Annotated[list[str], typer.Argument(help="Run folders, all of one task; files among them are left out.")],
    output: Annotated[
        str, typer.Option(help="The page, .html or .md; or its first curves alone, .svg, .pdf or .png.")
    ] = "report.html",
    title: Annotated[str, typer.Option(help="Its heading.")] = "",
) -> None:
    """Put finished, failed or unfinished runs side by side in one page."""
    from lamina.report.comparison_report import ComparisonReport, check_report_file
    from lamina.report.terminal.runs import show_comparison

    file = check_report_file(output)
    compared = ComparisonReport.read(runs)
    compared.save(file, title)
    show_comparison(compared.summaries, compared.conclusions)
    if compared.left_out:
        left_out = ", ".join(map(str, compared.left_out))
        typer.echo(f"\nLeft out, as files or as runs that were replaced: {left_out}")
    typer.echo(f"\nThe report: {file}")


@app.command(epilog="Example: lamina demo --folder /tmp/demo")
def demo(
    folder: Annotated[Path, typer.Option(help="Where data, runs and the report go.")] = Path("lamina-demo"),
    steps: Annotated[int, typer.Option(min=1, help="Updates of each run.")] = 500,
) -> None:
    """Train a deep model under five residual schemes on an embedded language, and report which train and why."""
    from lamina.studies.demo import run_demo

    run_demo(folder, steps)


def main() -> None:
    """The entry point: a mistake of the user is reported as a sentence, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still shows the rest
    try:
        app()
    except FailedElsewhere:
        sys.exit(2)  # the process that failed says why
    except UserError as error:
        typer.secho(f"lamina: {error}", err=True, fg="red")
        sys.exit(2)
    except OSError as error:
        typer.secho(f"lamina: {error}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("lamina: interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
