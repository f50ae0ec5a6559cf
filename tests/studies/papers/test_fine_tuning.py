"""Classifiers that start from a masked language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.runs.run import Run
from lamina.studies.papers.fine_tuning import fine_tune
from lamina.studies.papers.xiong_fig5 import XiongFig5
from lamina.studies.shared_runs.data_sets import open_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, declared = tmp_path_factory.mktemp("run"), XiongFig5().runs("micro")[1]
    store = open_data("text", "micro", folder / "data")
    made = Run(declared.config(1, str(store.folder)), folder / "run")
    made.train(quiet=True)
    return made


def test_a_classifier_starts_from_a_checkpoint_and_leaves_nothing(run: Run) -> None:
    checkpoints = run.folder.list_checkpoints()
    assert len(checkpoints) == 2
    accuracy = fine_tune(run, checkpoints[0].name, "mrpc", 1)
    assert accuracy is not None
    assert 0 <= accuracy <= 100
    assert accuracy == fine_tune(run, checkpoints[0].name, "mrpc", 1), "the same seed gives the same classifier"
    assert not (run.path / "fine-tuning").exists()


def test_the_pairs_have_the_tokenizer_of_the_text(run: Run, tmp_path: Path) -> None:
    stores = [open_data(name, "micro", tmp_path) for name in ("text", "rte")]
    texts = [(store.folder / "tokenizer.json").read_bytes() for store in stores]
    assert texts[0] == texts[1]
