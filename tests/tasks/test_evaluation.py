"""`evaluate` and `generate` use the same inputs, and an evaluation reports what it leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.data.prepare import prepare
from lamina.errors import UserError
from lamina.report.terminal.runs import show_evaluation
from lamina.runs.summary import Evaluation
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import MAX_TOKENS, Coverage
from lamina.tasks.generating import GeneratingTask
from support.small_corpora import options, sentences, write
from support.small_tasks import model_for, task_of

GENERATING = [
    name for name in TASKS if issubclass(TASKS[name], GeneratingTask) and name != "speech-recognition"
]  # whose own test compares recordings
EDGES = ("  {}", "{} ", "\t{}\u00a0", "{}", "\u3000{} \u2028")


def spaced(count: int, seed: int) -> list[str]:
    return [EDGES[at % len(EDGES)].format(text) for at, text in enumerate(sentences(count, seed))]


def task_with_edges(name: str, folder: Path) -> tuple[Any, list[str], list[str]]:
    """A task over files with white space at the edges of lines, and the lines of its validation files."""
    lines = {side: spaced(40, seed) for seed, side in enumerate(("s", "t"))}
    files = [write(folder, side, texts) for side, texts in lines.items()]
    given: dict[str, Any] = {"train": files, "valid": files}
    task_options: dict[str, Any] = {}
    if name == "language-modelling":
        given = {"format": "plain", "train": files[1:], "valid": files[1:]}
        task_options = {"across_documents": False, "block_length": 64}
    elif name == "multilingual-translation":
        given = {split: {"de-en": files} for split in given}
    store = prepare(options(folder, **given))
    return build_task(name, store, task_options), lines["s"], lines["t"]


@pytest.mark.parametrize("name", GENERATING)
def test_evaluation_equals_scoring_what_is_generated_from_the_files(name: str, tmp_path: Path) -> None:
    task, sources, targets = task_with_edges(name, tmp_path)
    model = model_for(task).eval()
    pairs = [(sources, targets, None)]
    if name == "multilingual-translation":
        pairs = [(sources, targets, "en"), (targets, sources, "de")]
    if name == "language-modelling":
        pairs = [([""] * len(targets), targets, None)]
    scored = [each for given, wanted, to in pairs for each in task.score_text(model, given, wanted, to=to)]
    nll = -sum(each.log_probability for each in scored) / sum(each.count for each in scored)
    scores = task.evaluate(model, "valid")
    assert scores["nll"] == pytest.approx(nll, rel=1e-5)
    if name == "language-modelling":
        return
    found = [best.text for given, _, to in pairs for best, *_ in task.generate_text(model, given, to=to)]
    references = [text.strip() for _, wanted, _ in pairs for text in wanted]
    assert task.generate(model, "valid", MAX_TOKENS) == (found, references)
    if name != "multilingual-translation":
        for metric, value in task.score(found, references).items():
            assert scores[metric] == pytest.approx(value)


@pytest.mark.parametrize("name", ["translation", "multilingual-translation"])
def test_examples_without_positions_are_left_out_and_counted(name: str, tmp_path: Path) -> None:
    task = task_of(name, tmp_path)
    sizes = task.sizes(task.examples("valid"))
    model = model_for(task, positions="learned", max_length=int(np.median(sizes)))
    kept = int((sizes <= np.median(sizes)).sum())
    assert 0 < kept < len(sizes)
    scores = task.evaluate(model, "valid")
    assert all(np.isfinite(value) for value in scores.values())
    coverage = task.coverage(model, "valid")
    assert (coverage.evaluated, coverage.total) == (kept, len(sizes))
    assert coverage.left_out == {"longer than the positions of the model": len(sizes) - kept}
    with pytest.raises(UserError, match="every example is longer than the 1 positions"):
        task.evaluate(model_for(task, positions="learned", max_length=1), "valid")
    assert task.coverage(model_for(task), "valid").left_out == {}


def test_lines_dropped_in_preparation_are_counted(tmp_path: Path) -> None:
    files = [write(tmp_path, "s", ["a", "", "c"]), write(tmp_path, "t", ["A", "B", " C"])]
    task: Any = build_task("translation", prepare(options(tmp_path, train=files, valid=files)), {})
    assert task.coverage(model_for(task), "valid") == Coverage(2, 3, {"empty": 1})


def test_what_is_left_out_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    coverage = {"test": Coverage(189, 200, {"empty": 11}), "valid": Coverage(5, 5, {})}
    show_evaluation(Evaluation({"test": {"bleu": 30.0}}, {}, coverage))
    printed = capsys.readouterr().out
    assert "test: evaluated on 189 of 200 examples; left out: 11 empty" in printed
    assert "valid" not in printed


def test_f1_is_named_by_its_mean(tmp_path: Path) -> None:
    write(tmp_path, "pairs.tsv", [f"{text}\t{text}\t{'abc'[at % 3]}" for at, text in enumerate(sentences(12))])
    columns = {"first": 1, "second": 2, "label": 3}
    chosen = options(tmp_path, format="tsv", train="pairs.tsv", valid="pairs.tsv", columns=columns)
    task: Any = build_task("classification", prepare(chosen), {})
    scores = task.evaluate(model_for(task), "valid")
    assert scores["f1 micro"] == pytest.approx(scores["accuracy"])
    assert {"f1 macro", "f1 micro"} <= scores.keys()
    assert "f1" not in scores, "that of one label, where there are three"
