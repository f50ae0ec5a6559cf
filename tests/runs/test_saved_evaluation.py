"""`lamina evaluate --save`: the texts and scores of every example, for every task."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.runs.saved_evaluation import save_evaluation
from lamina.runs.summary import Evaluation
from lamina.tasks import TASKS
from lamina.tasks.generating import GeneratingTask
from support.commands import invoke, printed
from support.trained_runs import trained_run

TEXTS = {
    "classification": {"first", "second", "reference", "output"},
    "language-modelling": {"text"},
    "masked-language-modelling": {"text"},
    "multilingual-translation": {"to", "source", "reference", "output"},
}
SCORES = {
    "classification": {"probability"},
    "language-modelling": set[str](),
    "masked-language-modelling": set[str](),
    "speech-recognition": {"wer", "cer"},
    "summarisation": {"rouge1", "rouge2", "rougeL"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.mark.parametrize("task", TASKS)
def test_the_scores_of_examples_add_up_to_those_of_the_set(task: str, root: Path, tmp_path: Path) -> None:
    options = {"max_length": 5} if issubclass(TASKS[task], GeneratingTask) else None
    run = Run(trained_run(task, root)).load(generation=options)
    seen: list[tuple[str, int, int | None]] = []
    found = run.evaluate(save=tmp_path / "saved", progress=lambda *given: seen.append(given))
    examples = [json.loads(line) for line in (tmp_path / "saved" / "valid.jsonl").read_text().splitlines()]
    assert [each["example"] for each in examples] == list(range(1, len(examples) + 1))
    total = sum(each["nll"] * each["tokens"] for each in examples)
    assert total / sum(each["tokens"] for each in examples) == pytest.approx(found.scores["valid"]["nll"], rel=1e-4)
    texts = TEXTS.get(task, {"source", "reference", "output"})
    scores = SCORES.get(task, {"bleu", "chrf"}) | {"nll", "tokens", "example"}
    assert examples[0].keys() == texts | scores
    header, *rows = (tmp_path / "saved" / "valid.scores.tsv").read_text().splitlines()
    assert set(header.split("\t")) == scores
    assert len(rows) == len(examples)
    for name in texts:
        lines = (tmp_path / "saved" / f"valid.{name}.txt").read_text().splitlines()
        assert lines == [" ".join(each[name].splitlines()) for each in examples]
    assert json.loads((tmp_path / "saved" / "scores.json").read_text())["scores"] == found.scores
    for stage in {stage for stage, _, _ in seen}:
        steps = [(done, total) for name, done, total in seen if name == stage]
        assert (len(examples), len(examples)) in steps, "the bar reaches its end"
    assert ("valid: generation" in {stage for stage, _, _ in seen}) == ("source" in texts)


def test_outputs_are_those_that_the_metrics_were_computed_from(root: Path, tmp_path: Path) -> None:
    run = trained_run("translation", root)
    shown = printed("evaluate", str(run), "--save", str(tmp_path / "saved"))
    assert str(tmp_path / "saved") in shown
    outputs, references = (
        (tmp_path / "saved" / f"valid.{name}.txt").read_text().splitlines() for name in ("output", "reference")
    )
    bleu = json.loads((tmp_path / "saved" / "scores.json").read_text())["scores"]["valid"]["bleu"]
    assert BLEU().corpus_score(outputs, [references]).score == pytest.approx(bleu)
    first = json.loads((tmp_path / "saved" / "valid.jsonl").read_text().splitlines()[0])
    expected = BLEU(effective_order=True).sentence_score(first["output"], [first["reference"]]).score
    assert first["bleu"] == pytest.approx(expected)


def test_labels(root: Path, tmp_path: Path) -> None:
    run = Run(trained_run("classification", root)).load()
    found = run.evaluate(save=tmp_path / "saved").scores["valid"]["accuracy"]
    examples = [json.loads(line) for line in (tmp_path / "saved" / "valid.jsonl").read_text().splitlines()]
    assert 100 * statistics.fmean(each["output"] == each["reference"] for each in examples) == pytest.approx(found)
    [prediction] = run.predict([(examples[0]["first"], examples[0]["second"])])
    assert prediction is not None
    assert (examples[0]["output"], examples[0]["probability"]) == (
        prediction.label,
        pytest.approx(prediction.probability),
    )


def test_nothing_is_overwritten_and_half_a_folder_is_not_left(root: Path, tmp_path: Path) -> None:
    run = trained_run("translation", root)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    failed = invoke("evaluate", str(run), "--save", str(tmp_path / "mine"))
    assert isinstance(failed.exception, UserError)
    assert "mine: exists already; choose a new folder for --save" in str(failed.exception)
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    broken = Evaluation({}, {}, examples={"valid": [{"example": 1}], "test": [{"example": object()}]})
    with pytest.raises(TypeError):
        save_evaluation(broken, tmp_path / "new")
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
