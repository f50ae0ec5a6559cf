"""`lamina predict`: labels of new text, for classifiers of pairs and of single sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from lamina.cli import app
from lamina.data.prepare import PrepareOptions, prepare
from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.trained_runs import trained_run


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run("classification", tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of single sentences that tells good from bad."""
    root = tmp_path_factory.mktemp("sentences")
    words = (("good", "up"), ("bad", "down"))
    rows = [f"the {noun} is {word}\t{label}" for noun in "abcdefgh" for word, label in words]
    (root / "rows.tsv").write_text("\n".join(rows * 4) + "\n")
    values = {"output": str(root / "store"), "folder": str(root), "format": "tsv", "train": ["rows.tsv"]}
    values |= {"valid": ["rows.tsv"], "columns": {"first": 1, "label": 2}, "labels": ["down", "up"]}
    prepare(PrepareOptions.read(values | {"tokenizer": {"size": 300}}, where="test"))
    sizes = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1, "dropout": 0.0}
    config: dict[str, Any] = {
        "task": "classification",
        "data": {"store": str(root / "store"), "max_tokens": 300},
        "model": {**sizes, "positions": "learned", "max_length": 16},
        "schedule": {"name": "constant", "learning_rate": 1e-2},
        "train": {"steps": 40, "validate_every": 0},
    }
    run = Run(RunConfig.read(config, where="test"), root / "run")
    assert run.train(quiet=True).state == "finished"
    return run.path


def lamina(*arguments: str, given: str = "") -> Any:
    return CliRunner().invoke(app, ["predict", *arguments], input=given)


def test_single_sentences(sentences: Path) -> None:
    shown = lamina(str(sentences), "the a is good", "  the h is bad ")
    assert shown.exit_code == 0, shown.output
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [label for label, _ in rows] == ["up", "down"]
    assert all(0.9 < float(probability) <= 1 for _, probability in rows)


def test_labels_are_those_of_an_evaluation(pairs: Path) -> None:
    """The same texts through `predict` and through the batches of an evaluation."""
    run = Run(pairs).load()
    texts, expected = [], []
    for batch, inputs in run.task.every_batch(run.model, "valid", 400):
        decode = run.task.store.tokenizer().decode_batch
        texts += zip(*(decode(batch[name].sequences()) for name in ("first", "second")), strict=True)
        with torch.no_grad():
            expected += run.model(**inputs.arguments).softmax(-1).tolist()
    found = [list(each.probabilities.values()) for each in run.predict(texts) if each]
    assert np.allclose(found, expected, atol=1e-6)
    alone = [next(run.predict([each])) for each in texts]
    assert np.allclose([list(each.probabilities.values()) for each in alone if each], expected, atol=1e-5)


def test_lines_of_a_file_as_json(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("one two\tthree\n\nfour\tfive\n")
    shown = lamina(
        str(pairs), "--input", str(tmp_path / "in.tsv"), "--output", str(tmp_path / "out"), "--output-format", "jsonl"
    )
    assert shown.exit_code == 0, shown.output
    first, blank, last = (json.loads(line) for line in (tmp_path / "out").read_text().splitlines())
    assert first["line"] == 1
    assert list(first["probabilities"]) == ["no", "yes"]
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert first["label"] == max(first["probabilities"], key=first["probabilities"].get)
    assert blank == {"line": 2, "label": None, "probabilities": {}}
    assert last["line"] == 3


def test_standard_input(sentences: Path) -> None:
    shown = lamina(str(sentences), given="the b is good\n\nthe c is bad\n")
    assert [line.split("\t")[0] for line in shown.stdout.splitlines()] == ["up", "", "down"]


def test_a_text_longer_than_the_positions_is_cut_with_a_warning(sentences: Path) -> None:
    warned: list[str] = []
    [found] = Run(sentences).predict(["the a is good " * 9], warn=warned.append)
    assert found is not None
    assert warned == ["text 1: cut to 14 tokens, because the model has 16 positions"]


def test_wrong_use(pairs: Path, sentences: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("one\ttwo\nthree\n")
    file = str(tmp_path / "in.tsv")
    for arguments, message in (
        ([str(pairs), "only one"], "labels pairs of texts, but 1 given"),
        ([str(pairs), "--input", file], "in.tsv, line 2: this classifier reads two texts with a tab between them"),
        ([str(sentences), "--input", file], "in.tsv, line 1: this classifier reads one text without tabs"),
        ([str(sentences), "a text", "--input", file], "on the command line and in"),
        ([str(sentences), file], f"say --input {file}"),
        ([str(sentences), "a", "--output-format", "csv"], "unknown output format 'csv'"),
        ([str(tmp_path), "a"], "not a run folder"),
    ):
        failed = lamina(*arguments)
        assert isinstance(failed.exception, UserError), arguments
        assert message in str(failed.exception)
    with pytest.raises(UserError, match="give a list of texts"):
        Run(sentences).predict("the a is good")


def test_other_tasks_have_no_labels(tmp_path: Path) -> None:
    run = Run(trained_run("translation", tmp_path))
    with pytest.raises(UserError, match="task 'translation' has no labels to predict; use lamina generate"):
        run.predict(["a"])
