"""Candidates: their order, equal numbers of parameters, and what a start from trained weights allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.studies.advice.candidates import Candidate, list_candidates
from lamina.tasks import build_task
from lamina.training.config import RunConfig
from support.small_runs import config_for


@pytest.fixture
def config(stores: Path) -> RunConfig:
    sizes = {"model_dim": 64, "feed_forward_dim": 128, "num_heads": 2, "num_layers": 4, "residual": "pre-ln"}
    return config_for("translation", stores, model=sizes)


@pytest.fixture
def store(config: RunConfig) -> Store:
    return Store.open(config.data.store or "")


def test_the_nearest_to_the_most_promising_come_first(config: RunConfig, store: Store) -> None:
    found = list_candidates(config, store)
    assert len(found) == len({each.name for each in found}) == 5 * 3 * 4
    assert (found[0].schemes, found[0].depth, found[0].learning_rate) == (("pre-ln",), 4, 3e-3)
    unchanged = [at for at, each in enumerate(found) if each.changes == 0]
    assert unchanged[0] < 4, "the config itself is among those that any budget has"
    assert found[-1].changes == 3


def test_models_of_all_depths_have_about_as_many_parameters(config: RunConfig, store: Store) -> None:
    task = build_task(config.task, store, config.task_options)

    def parameters(candidate: Candidate) -> int:
        values = candidate.values(config.model_dump(exclude_unset=True))
        return Transformer.build(task.model_options(RunConfig.read(values, where="").model)).num_parameters()

    by_depth = {each.depth: each for each in list_candidates(config, store, ["pre-ln"], rates=[1e-3])}
    assert by_depth.keys() == {2, 4, 8}
    assert by_depth[2].width > by_depth[4].width == 64 > by_depth[8].width
    sizes = {depth: parameters(each) for depth, each in by_depth.items()}
    assert all(abs(size / sizes[4] - 1) < 0.2 for size in sizes.values()), sizes


def test_what_is_asked_for_is_taken_as_it_is(config: RunConfig, store: Store) -> None:
    found = list_candidates(config, store, ["b2t", "post-ln/pre-ln"], ["4", "6-2"], [1e-4])
    assert {(each.schemes, each.depth) for each in found} == {
        (schemes, depth) for schemes in (("b2t",), ("post-ln", "pre-ln")) for depth in (4, (6, 2))
    }
    assert found[-1].settings()["model.residual"] == ["post-ln", "pre-ln"]
    assert found[-1].settings()["model.num_layers"] == [6, 2]
    assert found[-1].name == "post-ln+pre-ln-6-2-0.0001"


def test_options_of_another_scheme_are_dropped(config: RunConfig, store: Store) -> None:
    chosen = list_candidates(config, store, ["b2t"], rates=[1e-3])[0]
    values = chosen.values({"model": {"residual": "layer-scale", "residual_options": {"start": 0.1}}, "seed": 3})
    assert values["model"]["residual"] == "b2t"
    assert "residual_options" not in values["model"]
    assert values["seed"] == 3


def test_trained_weights_keep_their_scheme_and_depth(config: RunConfig, store: Store) -> None:
    started = config.model_copy(update={"start_from": "runs/first"})
    found = list_candidates(started, store)
    assert {(each.schemes, each.depth) for each in found} == {(("pre-ln",), 4)}
    assert len(found) == 4
    with pytest.raises(UserError, match="only learning rates can be compared"):
        list_candidates(started, store, ["b2t"])
