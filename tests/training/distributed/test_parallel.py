"""How processes share a model, with a group of one process; `tests/distributed` has more of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from lamina.training.distributed.parallel import (
    Parallel,
    Replicated,
    Sharded,
    full_tensor,
    local_part,
    parallelise,
    shard_like,
)
from lamina.training.distributed.world import ALONE, World
from support.single_process import single_process_mesh
from support.small_models import LABELS, SOURCE, TARGET, small_model


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    with single_process_mesh() as mesh:
        yield mesh


def loss_of(parallel: Parallel) -> torch.Tensor:
    return parallel.network(SOURCE, TARGET, labels=LABELS).smoothed.mean()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_one_process_has_the_plain_model(strategy: str) -> None:
    model = small_model("post-ln")
    parallel = parallelise(model, strategy, ALONE)  # type: ignore[arg-type]
    assert type(parallel) is Parallel
    assert parallel.network is model
    with parallel.accumulating(last=False), parallel.gathered():
        loss_of(parallel).backward()
    assert all(each.grad is not None for each in model.parameters())


@pytest.mark.usefixtures("mesh")
def test_replicas_exchange_gradients_after_the_last_micro_batch_only() -> None:
    parallel = parallelise(small_model("post-ln"), "ddp", World(0, 2, ALONE.device))
    assert isinstance(parallel, Replicated)
    assert parallel.network.require_backward_grad_sync
    with parallel.accumulating(last=False):
        assert not parallel.network.require_backward_grad_sync
    with parallel.accumulating(last=True):
        assert parallel.network.require_backward_grad_sync


@pytest.mark.usefixtures("mesh")
def test_a_sharded_model_computes_the_same_and_is_whole_only_when_gathered() -> None:
    expected = loss_of(Parallel(small_model("post-ln").eval())).item()
    torch.manual_seed(0)  # the same weights once more
    model = small_model("post-ln").eval()
    parallel = Sharded(model, ALONE)
    assert all(isinstance(each, DTensor) for each in model.parameters())
    found = loss_of(parallel)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    found.backward()
    assert all(isinstance(each.grad, DTensor) for each in model.parameters() if each.grad is not None)
    with parallel.gathered():
        weight = model.encoder.layers[0].sublayers[1].inner.weight
        assert not isinstance(weight, DTensor)
        loss_of(parallel)
        assert not isinstance(model.encoder.layers[0].sublayers[1].inner.weight, DTensor), "kept after a pass"
    assert all(isinstance(each, DTensor) for each in model.parameters())


def test_whole_and_local_tensors(mesh: DeviceMesh) -> None:
    value = torch.randn(4, 3)
    sharded = distribute_tensor(value, mesh, [Shard(0)])
    assert torch.equal(full_tensor(sharded), value)
    assert torch.equal(local_part(sharded), value)
    assert full_tensor(value) is local_part(value) is value
    alike = shard_like(sharded, 2 * value)
    assert isinstance(alike, DTensor)
    assert alike.placements == sharded.placements
    assert torch.equal(alike.full_tensor(), 2 * value)
    counter = torch.tensor(3.0)
    assert shard_like(sharded, counter) is counter, "of another shape"
    assert shard_like(value, counter) is counter, "nothing is sharded"
    assert shard_like(sharded, sharded) is sharded
