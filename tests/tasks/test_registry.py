"""Adding a task needs one new file only."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.tasks import TASKS
from support.extensions import ROOT, copy_package, install, run

NEW_TASK = '''
"""Reversal: the target is the source with its words in reverse order, evaluated by BLEU."""

from collections.abc import Iterator

from lamina.data import synthetic
from lamina.data.catalogue import Source, embedded_sets
from lamina.tasks.metrics import bleu
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


FIELDS = ("source", "target", "remark")


def reversed_words(split: str, count: int, language: str | None) -> Iterator[tuple[str, str, str]]:
    for number in range(count):
        words = [str(number * step % 97) for step in (3, 5, 7)]
        yield " ".join(words), " ".join(reversed(words)), "reversed"


synthetic.KINDS["reversed-words"] = synthetic.SyntheticKind(FIELDS, reversed_words)


class Reversal(SequenceToSequence):
    class Options(SequenceOptions):
        beside: int = 2
        """A key of the new task alone."""

    name = "reversal"
    fields = FIELDS
    embedded = Source.embedded("Numbers in reverse order", embedded_sets("reversed-words", 200, 10, 300))
    metric = "bleu"

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        return {"bleu": bleu(hypotheses, references).value}
'''.lstrip()

CONFIG = """
task = "reversal"

[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 1

[data]
max_tokens = 200

[train]
steps = 3
validate_every = 0
samples = 1
"""


def train_and_evaluate(path: Path, folder: Path) -> None:
    """Train for three steps, which prepares the task's own data first, then evaluate."""
    (folder / "config.toml").write_text(CONFIG)
    trained = run("-m", "lamina", "train", "config.toml", "--folder", "runs/new", path=path, folder=folder)
    assert trained.returncode == 0, trained.stderr + trained.stdout
    assert "at step 3" in trained.stdout
    evaluated = run("-m", "lamina", "evaluate", "runs/new", "--split", "test", path=path, folder=folder)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "bleu" in evaluated.stdout


def prepare_data(path: Path, folder: Path) -> None:
    """Prepare the task's own data set by name, then a file with the task's own field, and train on each."""
    listed = run("-m", "lamina", "prepare", path=path, folder=folder)
    assert "embedded-reversal" in listed.stdout, listed.stderr
    (folder / "rows.tsv").write_text("a b c\tc b a\tshort\n" * 20)
    columns = "columns = {source = 1, target = 2, remark = 3}\ntokenizer = {size = 300}\n"
    (folder / "own.toml").write_text(f'format = "tsv"\ntrain = "rows.tsv"\nvalid = "rows.tsv"\n{columns}')
    for what in ("embedded-reversal", "own.toml"):
        store = f"data/{what}"
        prepared = run("-m", "lamina", "prepare", what, "--output", store, path=path, folder=folder)
        assert prepared.returncode == 0, prepared.stderr
        command = ("train", "config.toml", f"data.store={store}", "--folder", f"runs/{what}")
        trained = run("-m", "lamina", *command, path=path, folder=folder)
        assert "at step 3" in trained.stdout, trained.stderr + trained.stdout


def test_one_new_file_is_a_new_task(tmp_path: Path) -> None:
    (copy_package(tmp_path) / "tasks" / "reversal.py").write_text(NEW_TASK)
    train_and_evaluate(tmp_path, tmp_path)
    prepare_data(tmp_path, tmp_path)

    reference = run("-m", "lamina.training.config_reference", path=tmp_path)
    assert "[task_options] of reversal" in reference.stdout, reference.stderr
    assert "A key of the new task alone." in reference.stdout

    suite = str(ROOT / "tests" / "tasks" / "test_tasks.py")
    checked = run("-m", "pytest", suite, "-k", "reversal", "-p", "no:cacheprovider", path=tmp_path)
    assert checked.returncode == 0, checked.stdout[-3000:]
    assert "7 passed" in checked.stdout, "every test over all tasks also tests the new one"


def test_an_installed_package_adds_tasks_by_entry_point(tmp_path: Path) -> None:
    (tmp_path / "someones_task.py").write_text(NEW_TASK)
    install(tmp_path, "lamina.tasks", reversal="someones_task:Reversal")
    train_and_evaluate(tmp_path, tmp_path)


def test_all_tasks_of_the_papers_are_there() -> None:
    papers = "translation multilingual-translation summarisation language-modelling masked-language-modelling"
    assert {*papers.split(), "classification"} <= set(TASKS)
    assert all(task.name == name for name, task in TASKS.members.items())
    with pytest.raises(UserError, match="unknown task 'translat'; did you mean 'translation'"):
        TASKS["translat"]
