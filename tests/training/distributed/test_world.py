"""The processes of a run: one alone, devices that there are, and results and errors that all of several get."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import FailedElsewhere, UserError
from lamina.training.distributed.world import ALONE, World, join_world, started_rank
from support.processes import run_in_processes


def fail() -> None:
    raise UserError("no room")


def test_one_process_is_all_of_them() -> None:
    assert ALONE.is_first
    assert (ALONE.total(2.5), ALONE.largest(2.5), ALONE.from_first(2.5)) == (2.5, 2.5, 2.5)
    assert ALONE.gather("a") == ["a"]
    assert (ALONE.on_first(lambda: 3), ALONE.on_all(lambda: 4)) == (3, 4)
    for run in (ALONE.on_first, ALONE.on_all):
        with pytest.raises(UserError, match="no room"):
            run(fail)


def test_a_process_that_was_started_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert started_rank() == 0
    with join_world("cpu") as world:
        assert world == World(0, 1, torch.device("cpu"))
    assert not torch.distributed.is_initialized()
    monkeypatch.setenv("RANK", "3")
    assert started_rank() == 3


def test_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with join_world("auto") as world:
        assert world.device == torch.device("cpu")
    with (
        pytest.raises(UserError, match="train.device: 'gpu' is not a device; use auto, cpu or cuda"),
        join_world("gpu"),
    ):
        pass
    with pytest.raises(UserError, match="torch sees no GPU; use auto or cpu"), join_world("cuda"):
        pass
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with join_world("auto") as world:
        assert world.device == torch.device("cuda", 2)
    with join_world("cuda:1") as world:
        assert world.device == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 2), torch.device("cuda", 1)]


def agree(rank: int, count: int) -> None:
    """An error that is not shared would leave a process waiting for half an hour."""
    world = World(rank, count, torch.device("cpu"))
    assert (world.total(rank + 1.5), world.largest(rank + 1.5), world.from_first(rank + 1.5)) == (4.0, 2.5, 1.5)
    assert world.gather(f"process {rank}") == ["process 0", "process 1"]
    assert world.on_first(lambda: world.rank + 5) == 5
    assert world.on_all(lambda: world.rank) == world.rank

    def fail_in(rank: int) -> None:
        if world.rank == rank:
            raise UserError("no room")

    with pytest.raises(UserError if world.is_first else FailedElsewhere, match="no room"):
        world.on_first(lambda: fail_in(0))
    with pytest.raises(UserError if world.rank == 1 else FailedElsewhere, match="no room") as raised:
        world.on_all(lambda: fail_in(1))
    assert (type(raised.value) is FailedElsewhere) == world.is_first
    with pytest.raises(ZeroDivisionError if world.is_first else FailedElsewhere, match="division"):
        world.on_first(lambda: 1 // 0)


@pytest.mark.distributed
def test_results_and_errors_of_one_process_reach_the_other() -> None:
    run_in_processes(2, agree)
