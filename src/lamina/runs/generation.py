"""Generation from a file or a pipe: one line of output per line of input, written as soon as it is ready."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from lamina.errors import UserError, unknown
from lamina.files.progress import progress_bar
from lamina.files.text_lines import check_file, count_lines, read_lines, read_stream
from lamina.generate.scoring import Scored
from lamina.runs.run import Run
from lamina.tasks.classification import Classification, Prediction
from lamina.tasks.generating import GeneratingTask, Output
from lamina.terminal import say

Formatter = TypeVar("Formatter")
WINDOW = 1024  # lines read ahead, so that lines of similar length are batched together


def generate_file(
    run: Run,
    source: str,
    target: str,
    *,
    output_format: str = "text",
    to: str | None = None,
    prefix: str = "",
) -> None:
    """Write the outputs for every line of a file.

    source, target: files; `-` is standard input or output.
    prefix: the text that every output must start with.
    """
    format_line = _choose(output_format, {"text": _text, "jsonl": _json})
    if output_format == "text" and isinstance(run.task, GeneratingTask) and run.task.options.generation.nbest > 1:
        raise UserError("several outputs per line (nbest) need --output-format jsonl: text has one line for each")
    lines, window, total = _read(source)
    found = run.stream(lines, to=to, prefixes=prefix, window=window, warn=_warn)
    with _writing(target, source) as write, progress_bar() as progress:
        for number, outputs in enumerate(found, start=1):
            write(format_line(number, outputs))
            progress("generating", number, total)


def score_file(
    run: Run, source: str, targets: str, target: str, *, output_format: str = "text", to: str | None = None
) -> None:
    """Write log-probability and perplexity of every line of `targets`, given that of `source`."""
    format_line = _choose(output_format, {"text": _scored_text, "jsonl": _scored_json})
    lines, window, total = _read(source)
    expected, _ = _read_file(targets)
    found = run.score(lines, expected, to=to, window=window, warn=_warn)
    with _writing(target, source, targets) as write, progress_bar() as progress:
        for number, scored in enumerate(found, start=1):
            write(format_line(number, scored))
            progress("scoring", number, total)


def predict_file(run: Run, source: str, target: str, *, texts: Sequence[str] = (), output_format: str = "tsv") -> None:
    """Write the label of every line of a file, or of `texts`, with its probability.

    Where the classifier was trained on pairs, a line holds two texts with a tab between them, and `texts` come in
    pairs.
    """
    format_line = _choose(output_format, {"tsv": _label_tsv, "jsonl": _label_json})
    width = len(run.task.text_fields) if isinstance(run.task, Classification) else 1
    if len(texts) % width:
        raise UserError(f"{run.path}: labels pairs of texts, but {len(texts)} given; give two for each pair")
    if texts:
        total: int | None = len(texts) // width
        window = None
        cells: Iterator[Sequence[str]] = (texts[place : place + width] for place in range(0, len(texts), width))
    else:
        lines, ahead, total = _read(source)
        window = 1 if ahead == 1 else None
        name = "standard input" if source == "-" else source
        cells = (_split_line(line, width, f"{name}, line {number}") for number, line in enumerate(lines, start=1))
    found = run.predict(cells, window=window, warn=_warn)
    with _writing(target, source) as write, progress_bar() as progress:
        for number, prediction in enumerate(found, start=1):
            write(format_line(number, prediction))
            progress("labelling", number, total)


def _split_line(line: str, width: int, where: str) -> Sequence[str]:
    """The texts of a line; a blank line has blank texts."""
    texts = line.split("\t") if line.strip() else [""] * width
    if len(texts) != width:
        wanted = "two texts with a tab between them" if width == 2 else "one text without tabs"
        raise UserError(f"{where}: this classifier reads {wanted}, but there are {len(texts)}")
    return texts


def _label_tsv(number: int, prediction: Prediction | None) -> str:
    return f"{prediction.label}\t{prediction.probability:.4f}" if prediction else ""


def _label_json(number: int, prediction: Prediction | None) -> str:
    label, probabilities = (prediction.label, dict(prediction.probabilities)) if prediction else (None, {})
    return json.dumps({"line": number, "label": label, "probabilities": probabilities}, ensure_ascii=False)


def _choose(output_format: str, formatters: dict[str, Formatter]) -> Formatter:
    if output_format not in formatters:
        raise unknown("output format", output_format, formatters)
    return formatters[output_format]


def _read(source: str) -> tuple[Iterator[str], int, int | None]:
    """The lines, how many of them to read ahead, and their number if it is known."""
    if source == "-":
        at_a_terminal = sys.stdin.isatty()  # the output for a line appears before the next one is typed
        return read_stream(sys.stdin.buffer, "standard input"), 1 if at_a_terminal else WINDOW, None
    lines, total = _read_file(source)
    return lines, WINDOW, total


def _read_file(path: str) -> tuple[Iterator[str], int]:
    """The lines of a file and their number; an empty file has no lines, like an empty standard input."""
    is_empty = check_file(path).stat().st_size == 0
    return (iter(()), 0) if is_empty else (read_lines(path), count_lines(path))


@contextmanager
def _writing(target: str, *read: str) -> Iterator[Callable[[str], None]]:
    """A function that writes a line and flushes it, so that finished lines survive an interruption."""
    if target == "-" and sys.stdout.isatty():
        yield say
    elif target == "-":
        yield lambda line: _write_line(sys.stdout.buffer, line)
    elif any(Path(target).resolve() == Path(each).resolve() for each in read):
        raise UserError(f"{target}: is read from, so it cannot be written to; choose another --output")
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as handle:
            yield lambda line: _write_line(handle, line)


def _warn(message: str) -> None:
    say(f"lamina: {message}", error=True)


def _write_line(handle: BinaryIO, line: str) -> None:
    handle.write(line.encode() + b"\n")
    handle.flush()


def _text(number: int, outputs: list[Output]) -> str:
    """The best output on one line: a line break inside it would shift all lines that follow."""
    return outputs[0].text.replace("\n", " ") if outputs else ""


def _json(number: int, outputs: list[Output]) -> str:
    values = [{"text": each.text, "score": each.score, "log_probability": each.log_probability} for each in outputs]
    return json.dumps({"line": number, "outputs": values}, ensure_ascii=False)


def _scored_text(number: int, scored: Scored) -> str:
    return f"{scored.log_probability:.4f}\t{scored.perplexity:.4f}"


def _scored_json(number: int, scored: Scored) -> str:
    values = {"log_probability": scored.log_probability, "tokens": scored.count, "perplexity": scored.perplexity}
    return json.dumps({"line": number, **values})
