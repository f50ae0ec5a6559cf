"""Sharded tensors in files: written and read back, complete on a shared disk, refused where one is not shared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from lamina.errors import UserError
from lamina.files.hashes import FileRecord
from lamina.training.checkpoint import shards
from lamina.training.checkpoint.shards import (
    Shards,
    are_sharded,
    check_complete,
    check_shared,
    own_shards,
    read_shards,
    write_shards,
)
from lamina.training.distributed.world import ALONE, World
from support.single_process import single_process_mesh


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    with single_process_mesh() as mesh:
        yield mesh


def test_tensors_are_read_back_sharded_or_whole(mesh: DeviceMesh, tmp_path: Path) -> None:
    values = {"weight": torch.randn(4, 3), "half": torch.randn(2, 2).bfloat16(), "step": torch.tensor(7.0)}
    sharded = {name: distribute_tensor(each, mesh, [Shard(0)]) for name, each in values.items() if each.dim()}
    given = values | sharded
    assert are_sharded(given)
    assert not are_sharded(values)
    write_shards(tmp_path / "model", given)
    assert list(own_shards(tmp_path, rank=0).records) == [
        f"model/{path.name}" for path in (tmp_path / "model").glob("shard-00001-*")
    ]
    read = read_shards(tmp_path / "model", sharded.get)
    whole = read_shards(tmp_path / "model", lambda name: None)
    for name, value in values.items():
        assert torch.equal(whole[name], value), name
        assert whole[name].dtype == value.dtype
    assert isinstance(read["weight"], DTensor)
    assert torch.equal(read["weight"].full_tensor(), values["weight"])
    assert not isinstance(read["step"], DTensor)


def test_a_tensor_of_another_shape_is_read_as_it_is(mesh: DeviceMesh, tmp_path: Path) -> None:
    """Another model is refused later, with both shapes."""
    write_shards(tmp_path, {"weight": distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])})
    other = distribute_tensor(torch.zeros(2, 3), mesh, [Shard(0)])
    assert torch.equal(read_shards(tmp_path, lambda name: other)["weight"], torch.ones(4, 3))


def test_a_full_disk_is_an_os_error(mesh: DeviceMesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch wraps what the processes raise."""

    def fail(*given: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards.HuggingFaceStorageWriter, "write_data", fail)
    with pytest.raises(OSError, match="No space left on device"):
        write_shards(tmp_path, {"weight": distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])})


def test_each_process_has_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for rank in (1, 2):
        (tmp_path / "model" / f"shard-0000{rank}-model.safetensors").write_text(str(rank))
    found = own_shards(tmp_path, rank=1)
    assert found.records == {
        "model/shard-00002-model.safetensors": FileRecord.of(tmp_path / "model" / "shard-00002-model.safetensors")
    }


def test_what_another_process_wrote_must_be_there_as_it_was_written() -> None:
    one, two = (FileRecord(bytes=1, sha256=each) for each in "ab")
    written = [Shards("here", {"model/1": one}), Shards("there", {"model/2": two})]
    check_complete({"model/1": one, "model/2": two, "counters.json": one}, written)
    with pytest.raises(UserError, match=r"model/2, written by process 1 on there, is missing .*parallel=ddp"):
        check_complete({"model/1": one}, written)
    with pytest.raises(UserError, match=r"model/2, written by process 1 on there, has other contents"):
        check_complete({"model/1": one, "model/2": one}, written)


def test_the_probe_of_a_shared_folder_is_removed(tmp_path: Path) -> None:
    check_shared(tmp_path / "new" / "checkpoints", ALONE)
    assert list((tmp_path / "new" / "checkpoints").iterdir()) == []


def test_a_folder_that_is_not_shared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Second(World):
        """The second process, whose first is on another disk."""

        def on_first(self, work: Any) -> Any:
            return "token"

        def on_all(self, work: Any) -> Any:
            return work()

    monkeypatch.setattr(shards, "SECONDS_TO_APPEAR", 0.0)
    with pytest.raises(UserError, match=r"process 1 on .* does not see .*train\.parallel=ddp"):
        check_shared(tmp_path, Second(1, 2, ALONE.device))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match=r"taken.*no file can be made there"):
        check_shared(tmp_path / "taken" / "checkpoints", ALONE)
