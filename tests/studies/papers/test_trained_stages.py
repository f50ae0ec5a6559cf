"""A run's model before and after training."""

from __future__ import annotations

import pytest
import torch

from lamina.runs.run import Run
from lamina.studies.papers.matrix_norms import norms_of_steps, share_of_smaller_queries, spread_over_kinds
from lamina.studies.papers.trained_models import model_run
from lamina.studies.papers.trained_stages import AFTER, BEFORE, stages_of
from lamina.studies.shared_runs.data_sets import open_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, declared = tmp_path_factory.mktemp("run"), model_run("micro", "iwslt", scheme="pre-ln", depth="6-6")
    store = open_data("iwslt", "micro", folder / "data")
    made = Run(declared.config(1, str(store.folder)), folder / "run")
    made.train(quiet=True)
    return made


def test_the_two_stages_are_the_start_and_the_end_of_the_run(run: Run) -> None:
    before, after = stages_of(run)
    assert (before.name, after.name) == (BEFORE, AFTER)
    end = dict(run.load("latest").model.named_parameters())
    for name, weight in after.model.named_parameters():
        assert torch.equal(weight, end[name])
    assert any(not torch.equal(weight, end[name]) for name, weight in before.model.named_parameters())
    assert not before.optimiser.state
    assert after.optimiser.state


def test_steps_of_a_stage_do_not_change_the_run(run: Run) -> None:
    _, stage = stages_of(run, batches=2, tokens=64)
    norms = norms_of_steps(stage)
    assert {"query", "key", "value", "output", "inner", "outer"} == {name.kind for name in norms}
    assert all(each.gradient > 0 for each in norms.values())
    assert all(each.update > 0 for each in norms.values())
    assert 0 <= share_of_smaller_queries(norms) <= 1
    assert spread_over_kinds(norms) >= 1
    (_, again) = stages_of(run)
    end = dict(run.load("latest").model.named_parameters())
    assert all(torch.equal(weight, end[name]) for name, weight in again.model.named_parameters())
