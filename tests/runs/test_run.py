"""A trained run from Python: its own data, evaluation, int8."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lamina
from lamina import UserError
from lamina.runs.run import Run
from support.trained_runs import sources, trained_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="module")
def translator(folder: Path) -> Run:
    return lamina.load(trained_run("translation", folder))


@pytest.mark.parametrize("task", ["translation", "multilingual-translation"])
def test_a_run_generates_text_where_its_store_is_gone(task: str, tmp_path: Path) -> None:
    path, to = trained_run(task, tmp_path), None if task == "translation" else "tuvo"
    before = lamina.load(path).generate(["ma to", "tu"], to=to)
    shutil.rmtree(tmp_path / "stores")
    run = lamina.load(path.rename(tmp_path / "elsewhere"))
    assert run.generate(["ma to", "tu"], to=to) == before
    with pytest.raises(UserError, match="no such store.*If the store was moved, set data.store in .*config.toml"):
        run.evaluate()
    (run.path / "manifest.json").unlink()
    with pytest.raises(UserError, match="manifest.json: cannot be read .* copy manifest.json and the tokenizers again"):
        lamina.load(run.path)


def test_evaluation_searches_as_asked(folder: Path, translator: Run) -> None:
    path = trained_run("translation", folder)
    for options in ({"beam": 1}, {"method": "greedy"}):
        run = lamina.load(path, "latest", generation=options)
        hypotheses = [outputs[0].text for outputs in run.stream(sources(run))]
        assert hypotheses == translator.generate(sources(run), method="greedy")
    assert {"bleu", "nll"} <= set(run.evaluate().scores["valid"])
    with pytest.raises(UserError, match="no split 'tset'"):
        run.evaluate("tset")


def test_int8_weights_hardly_change_the_scores(translator: Run) -> None:
    texts = sources(translator)
    targets = translator.generate(texts, max_length=10)
    small = translator.quantise()
    exact, rounded = (
        [scored.log_probability / scored.count for scored in run.score(texts, targets)] for run in (translator, small)
    )
    assert exact != rounded
    assert rounded == pytest.approx(exact, abs=0.05), "nats per token"
    assert len(small.generate(texts)) == len(texts)
    assert translator.generate(texts, max_length=10) == targets, "the run itself stays as it was"
