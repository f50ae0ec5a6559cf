"""A saved evaluation: a folder with the texts and scores of every example.

scores.json           the metrics of each set, their signatures, and how many examples were evaluated
SET.jsonl             an object for each example: its number, texts, output and scores
SET.output.txt        a line for each example; so are SET.source.txt, SET.reference.txt and the other texts
SET.scores.tsv        a row of scores for each example, below a header
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.files.atomic import partial_path, sync_folder, write_file
from lamina.runs.summary import Evaluation


def check_new_folder(path: str | Path) -> None:
    """Refuse a path that exists, unless it is an empty folder."""
    path = Path(path)
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise UserError(f"{path}: exists already; choose a new folder for --save")


def save_evaluation(evaluation: Evaluation, path: str | Path) -> None:
    """Write all files to a temporary folder, which is renamed when it is complete."""
    path = Path(path)
    temporary = partial_path(path)
    try:
        temporary.mkdir(parents=True)
        for name, content in _contents(evaluation):
            write_file(temporary / name, content.encode())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); choose another --save") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _contents(evaluation: Evaluation) -> Iterable[tuple[str, str]]:
    coverage = {name: asdict(each) for name, each in evaluation.coverage.items()}
    values = {"scores": evaluation.scores, "signatures": evaluation.signatures, "coverage": coverage}
    yield "scores.json", json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    for split, examples in evaluation.examples.items():
        name = split.replace("/", "-")
        yield f"{name}.jsonl", _lines(json.dumps(each, ensure_ascii=False) for each in examples)
        texts = [key for key, value in examples[0].items() if isinstance(value, str)] if examples else []
        for key in texts:
            yield f"{name}.{key}.txt", _lines(" ".join(each[key].splitlines()) for each in examples)
        yield f"{name}.scores.tsv", _table(examples, texts)


def _table(examples: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> str:
    columns = [key for key in (examples[0] if examples else ()) if key not in texts]
    rows = ("\t".join(f"{each[key]:.6g}" for key in columns) for each in examples)
    return _lines(["\t".join(columns), *rows])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
