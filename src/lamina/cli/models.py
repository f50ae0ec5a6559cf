"""The commands that use a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.app import MODELS, app
from lamina.errors import UserError
from lamina.run_folder.checkpoints import BEST
from lamina.terminal import say

if TYPE_CHECKING:
    from lamina.runs.run import Run

GenerationOverrides = Annotated[list[str] | None, typer.Argument(help="Options of generation, as key=value.")]
Checkpoint = Annotated[str, typer.Option(help="best, latest, average or step-00001000.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Beam size; by default that of the config.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Use int8 weights, on the CPU.")]


@app.command(
    rich_help_panel=MODELS,
    epilog="Examples: lamina evaluate runs/b2t --split test --checkpoint average · lamina evaluate runs/b2t "
    "length_penalty=1.2 · lamina evaluate runs/b2t --data new.de --data new.en --save scored",
)
def evaluate(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    overrides: GenerationOverrides = None,
    split: Annotated[str, typer.Option(help="The split to evaluate on.")] = "valid",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Other data: a store with the same tokenizer, or files like those trained on; source and target "
            "files in turn. Repeat the option for each file."
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option(help="A new folder for the texts, outputs and scores of all examples.")
    ] = None,
    checkpoint: Checkpoint = BEST,
    beam: Beam = None,
    int8: Int8 = False,
) -> None:
    """Measure a trained model with the metrics of its task, on its own data or on other data."""
    from lamina.files.progress import progress_bar
    from lamina.report.terminal.runs import show_evaluation

    loaded = _load(run, checkpoint, overrides, beam, int8)
    with progress_bar() as progress:
        evaluation = loaded.evaluate(split, data=data or (), save=save, progress=progress)
    show_evaluation(evaluation)
    if save is not None:
        say(f"Texts and scores of all examples: {save}")


@app.command(
    rich_help_panel=MODELS,
    epilog="Examples: lamina generate runs/b2t < source.txt > output.txt · lamina generate runs/lm method=sample "
    "top_p=0.9 --input prompts.txt · lamina generate runs/b2t --input source.txt --score target.txt",
)
def generate(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    overrides: GenerationOverrides = None,
    input_file: Annotated[str, typer.Option("--input", help="A file of lines; - reads standard input.")] = "-",
    output_file: Annotated[str, typer.Option("--output", help="Where outputs go; - for standard output.")] = "-",
    output_format: Annotated[str, typer.Option(help="text (a line for each line) or jsonl (with scores).")] = "text",
    to: Annotated[str | None, typer.Option(help="The language to translate into, where there are several.")] = None,
    prefix: Annotated[str, typer.Option(help="The text that every output starts with.", show_default=False)] = "",
    score: Annotated[str | None, typer.Option(help="A file of targets to score instead of generating.")] = None,
    checkpoint: Checkpoint = BEST,
    beam: Beam = None,
    int8: Int8 = False,
) -> None:
    """Translate, summarise or continue lines of text, or score given targets."""
    from lamina.runs.generation import generate_file, score_file

    for override in overrides or []:
        if Path(override).is_file():
            raise UserError(f"{override} is a file, not an option: to read it, say --input {override}")
    if score is not None and prefix:
        raise UserError(
            "--score takes targets as they are; --prefix is for outputs that are generated; leave one of them out"
        )
    loaded = _load(run, checkpoint, overrides, beam, int8)
    if score is None:
        generate_file(loaded, input_file, output_file, output_format=output_format, to=to, prefix=prefix)
    else:
        score_file(loaded, input_file, score, output_file, output_format=output_format, to=to)


@app.command(
    rich_help_panel=MODELS,
    epilog="Examples: lamina predict runs/reviews 'A fine film.' 'A waste of time.' · lamina predict runs/mrpc 'First "
    "sentence.' 'Second one.' (a pair) · lamina predict runs/mrpc --input pairs.tsv --output-format jsonl",
)
def predict(
    run: Annotated[str, typer.Argument(help="The run folder of a classifier.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences; if the classifier was trained on pairs, two for each pair."),
    ] = None,
    input_file: Annotated[
        str,
        typer.Option("--input", help="A file of lines, pairs with a tab between them; - reads standard input."),
    ] = "-",
    output_file: Annotated[str, typer.Option("--output", help="Where labels go; - for standard output.")] = "-",
    output_format: Annotated[
        str, typer.Option(help="tsv (label and its probability) or jsonl (the probability of every label).")
    ] = "tsv",
    checkpoint: Checkpoint = BEST,
    int8: Int8 = False,
) -> None:
    """Label texts with a trained classifier, with probabilities."""
    from lamina.runs.generation import predict_file

    if texts and input_file != "-":
        raise UserError(f"texts are given on the command line and in {input_file}; leave out one of them")
    if texts and len(texts) == 1 and Path(texts[0]).is_file():
        raise UserError(f"{texts[0]} is a file: to label its lines, say --input {texts[0]}")
    loaded = _load(run, checkpoint, None, None, int8)
    predict_file(loaded, input_file, output_file, texts=texts or (), output_format=output_format)


@app.command(
    rich_help_panel=MODELS,
    epilog="Examples: lamina export runs/b2t --to hf · lamina export runs/admin --to ctranslate2",
)
def export(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option(help="The format: hf, ctranslate2, onnx or torch-export.")],
    output: Annotated[str | None, typer.Option(help="A new folder; by default RUN-FORMAT.", show_default=False)] = None,
    checkpoint: Checkpoint = BEST,
) -> None:
    """Write a trained model in the format of another library."""
    from lamina.interop.exports.export import export_run

    folder = Path(f"{Path(run)}-{to}" if output is None else output)
    for note in export_run(_load(run, checkpoint, None, None, False), to, folder):
        say(f"Note: {note}.")
    say(f"The model in the format {to}: {folder}")


@app.command(
    "import",
    rich_help_panel=MODELS,
    epilog="Examples: lamina import path/to/gpt2 --folder runs/gpt2 · lamina import checkpoint_best.pt --read-pt "
    "--folder runs/wmt",
)
def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="A folder with config.json and safetensors (BERT, GPT-2, Llama, Marian or fairseq), or a .pt file of "
            "fairseq."
        ),
    ],
    folder: Annotated[str, typer.Option(help="The new run folder.")],
    read_pt: Annotated[
        bool,
        typer.Option("--read-pt", help="Read a pickled checkpoint, by torch's restricted reader (weights_only)."),
    ] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="A classifier labels pairs of sentences.")] = False,
) -> None:
    """Make a run from a model of another library."""
    from lamina.interop.imports.import_run import import_run

    for note in import_run(source, folder, read_pt=read_pt, pairs=pairs).notes:
        say(f"Note: {note}.")
    say(f"The run: {folder}")


def _load(path: str, checkpoint: str, overrides: list[str] | None, beam: int | None, int8: bool) -> Run:
    from lamina.api import load
    from lamina.config import read_overrides

    generation = read_overrides(overrides or [], example="length_penalty=1.2")
    if beam is not None and generation.get("method", "beam") != "beam":
        raise UserError(f"--beam is for beam search, but method={generation['method']}; leave one of them out")
    if beam is not None and generation.get("beam", beam) != beam:
        raise UserError(f"--beam {beam} and beam={generation['beam']}; leave one of them out")
    generation |= {} if beam is None else {"method": "beam", "beam": beam}
    run = load(path, checkpoint, generation=generation)
    return run.quantise() if int8 else run
