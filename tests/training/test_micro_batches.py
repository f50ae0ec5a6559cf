"""The micro-batches of each process: all examples once in total, and equally many micro-batches per process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.tasks import build_task
from lamina.tasks.base import Task
from lamina.tasks.translation import Translation
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World
from lamina.training.micro_batches import TrainingBatches
from support.small_runs import config_for, store_for


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    sets = {"train": ["translation:40"], "valid": ["translation:4"], "test": ()}
    folder = tmp_path_factory.mktemp("feed") / "toy"
    store = prepare(source_options("embedded-translation", ".", str(folder), tokenizer={"size": 400}, **sets))
    return build_task("translation", store, {})


def first_updates(task: Task, rank: int, size: int, accumulate: int, start: tuple[int, int] = (0, 0)) -> list[Any]:
    values = {"data": {"max_tokens": 90, "oversize": "alone"}, "train": {"accumulate": accumulate}}
    batches = TrainingBatches(task, RunConfig.read(values, where="test"), World(rank, size, torch.device("cpu")))
    return [update for update, _ in zip(batches.shares(*start), range(2 * len(batches.plan.epoch(0))), strict=False)]


def words(micro_batches: Any) -> np.ndarray[Any, Any]:
    """All source words that count, in order of their number."""
    counted = [micro_batch.tensors["source"].numpy() for micro_batch in micro_batches if micro_batch.count]
    return np.sort(np.concatenate(counted)) if counted else np.zeros(0, int)


@pytest.mark.parametrize(("size", "accumulate"), [(1, 3), (2, 1), (4, 1), (4, 3), (8, 2)])
def test_processes_see_the_batches_of_one_and_compute_equally_often(task: Task, size: int, accumulate: int) -> None:
    whole = first_updates(task, 0, 1, 1)
    parts = [first_updates(task, rank, size, accumulate) for rank in range(size)]
    borrowed = 0
    for epoch, index, micro_batches, _ in whole:
        shares = [part.pop(0) for part in parts]
        assert {share[:2] for share in shares} == {(epoch, index)}
        assert len({len(share[2]) for share in shares}) == 1, "sharded layers would wait forever"
        every = [micro_batch for share in shares for micro_batch in share[2]]
        assert sum(micro_batch.count for micro_batch in every) == micro_batches[0].count
        assert np.array_equal(words(every), words(micro_batches))
        borrowed += sum(not micro_batch.count for micro_batch in every)
    assert (borrowed > 0) == (size > 1), "small batches leave some without"


def test_shares_can_start_at_any_batch(task: Task) -> None:
    whole = first_updates(task, 0, 1, 1)
    per_epoch = len(whole) // 2
    later = first_updates(task, 0, 1, 1, start=(1, 2))
    assert [update[:2] for update in later[:3]] == [(1, 2), (1, 3), (1, 4)]
    assert np.array_equal(words(later[0][2]), words(whole[per_epoch + 2][2]))


def test_every_process_is_shown_the_same_first_batch(stores: Path) -> None:
    config = config_for("translation", stores, train={"accumulate": 2})
    task = Translation(store_for("translation", stores), Translation.Options())
    alone = TrainingBatches(task, config_for("translation", stores), World(0, 1, torch.device("cpu")))
    [whole] = next(alone.shares()).micro_batches
    for rank in range(3):
        first = TrainingBatches(task, config, World(rank, 3, torch.device("cpu"))).first()
        for name, tensor in whole.tensors.items():
            assert torch.equal(first.tensors[name], tensor)
