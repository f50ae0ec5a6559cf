"""`lamina evaluate --data`: other files, encoded with the run's tokenizer, or another store."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lamina.cli import app
from lamina.data.prepare import PrepareOptions, prepare
from lamina.errors import UserError
from lamina.runs.run import Run
from support.trained_runs import trained_run

TASKS = ("translation", "summarisation", "classification")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("other")


def write_valid(run: Run, folder: Path) -> list[str]:
    """The run's own validation split as files of text."""
    folder.mkdir(exist_ok=True)
    store = run.own_data()
    split = store["valid"]
    texts: dict[str, list[str]] = {}
    for field in split.fields:
        tokens = [split.tokens(field, index) for index in range(len(split))]
        is_label = field == "label"
        names = (
            [store.labels[int(each[0])] for each in tokens] if is_label else store.tokenizer(field).decode_batch(tokens)
        )
        texts[field] = list(names)
    if "first" in texts:
        texts = {"rows": ["\t".join(row) for row in zip(*texts.values(), strict=True)]}
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return [str(folder / name) for name in texts]


@pytest.mark.parametrize("task", TASKS)
def test_files_give_the_scores_of_the_same_examples_in_the_store(task: str, root: Path) -> None:
    run = Run(trained_run(task, root)).load()
    found = run.evaluate(data=write_valid(run, root / f"{task}-files"))
    assert found.scores["test"] == pytest.approx(run.evaluate().scores["valid"], rel=1e-5)


def test_running_text(root: Path) -> None:
    """The words of the file are those that the perplexity per word is averaged over."""
    run = Run(trained_run("language-modelling", root)).load()
    (root / "text").write_text("Las grisnil grinus rus.\n\nLas rus.\n")
    scores = run.evaluate(data=str(root / "text")).scores["test"]
    tokens = sum(len(run.task.store.tokenizer().encode(text)) + 1 for text in ("Las grisnil grinus rus.", "Las rus."))
    assert scores["perplexity per word"] == pytest.approx(scores["perplexity"] ** (tokens / 8), rel=1e-4)


def test_a_store_and_the_command(root: Path) -> None:
    run = Run(trained_run("translation", root)).load()
    files = write_valid(run, root / "texts")
    values: dict[str, Any] = {"output": str(root / "store"), "test": files}
    prepare(PrepareOptions.read({**values, "tokenizer": {"file": str(run.path / "tokenizer.json")}}, where="test"))
    before = set(Path(tempfile.gettempdir()).glob("lamina-*"))
    rows = []
    for data in (["--data", str(root / "store"), "--split", "test"], ["--data", files[0], "--data", files[1]]):
        shown = CliRunner().invoke(app, ["evaluate", str(run.path), *data])
        assert shown.exit_code == 0, shown.output
        rows.append(shown.stdout.splitlines()[1].split())
    assert rows[0] == rows[1]
    assert rows[0][0] == "test"
    assert set(Path(tempfile.gettempdir()).glob("lamina-*")) <= before, "the temporary store is removed"


def test_wrong_use(root: Path, tmp_path: Path) -> None:
    run = Run(trained_run("translation", root)).load()
    files = write_valid(run, root / "texts")
    prepare(PrepareOptions.read({"output": str(tmp_path / "s"), "train": files, "tokenizer": {"size": 300}}, "test"))
    (tmp_path / "short").write_text("one\n")
    for data, message in (
        ([str(tmp_path / "s")], "has another tokenizer than the run"),
        ([str(tmp_path / "s"), files[0]], "give one store, or files only"),
        ([files[0]], "parallel files come in couples"),
        ([files[0], str(tmp_path / "short")], "parallel files need the same number"),
        ([files[0], str(tmp_path / "missing")], "missing"),
        ([str(tmp_path)], "manifest.json"),
    ):
        with pytest.raises(UserError, match=message):
            run.evaluate(data=data)
