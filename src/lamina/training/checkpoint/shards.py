"""Tensors that are sharded over several processes, as safetensors files: each process writes its own part.

    model/
      shard-00001-model-00001-of-00001.safetensors     each file records the offsets of its parts
      shard-00002-model-00001-of-00001.safetensors

These are torch's distributed checkpoints with safetensors storage; the default storage keeps its metadata as a pickle.
Any number of processes can read them: each reads the parts that overlap with what it holds.
"""

from __future__ import annotations

import socket
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from lamina.errors import UserError
from lamina.files.hashes import FileRecord
from lamina.run_folder.checkpoints import PROBE
from lamina.training.checkpoint.snapshot import Tensors
from lamina.training.distributed.world import World

ShardedLike = Callable[[str], Tensor | None]
"""Returns, for the name of a tensor, one with the sharding that it is read with; None to read the whole tensor."""

SECONDS_TO_APPEAR = 5.0
"""The time after which a file that one machine has written must be visible to the others."""
WAY_OUT = "put the run folder on a disk that all processes share, or train with train.parallel=ddp"


class Shards(NamedTuple):
    """The files that one process has written."""

    host: str
    records: Mapping[str, FileRecord]
    """The record of each file, by its path within the checkpoint folder."""


def are_sharded(tensors: Tensors) -> bool:
    return any(isinstance(each, DTensor) for each in tensors.values())


def write_shards(folder: Path, tensors: Tensors) -> None:
    """Write and sync the files; to be called by all processes."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(dict(tensors), storage_writer=writer)
    except CheckpointException as failed:
        raise _as_one_error(failed) from failed


def own_shards(checkpoint: Path, rank: int) -> Shards:
    """The files that the process of this rank has written, as it sees them."""
    paths = checkpoint.glob(f"*/shard-{rank + 1:05d}-*")
    return Shards(
        socket.gethostname(), {path.relative_to(checkpoint).as_posix(): FileRecord.of(path) for path in paths}
    )


def check_complete(sealed: Mapping[str, FileRecord], written: Sequence[Shards]) -> None:
    """Check that the sealed checkpoint contains the shards of all processes, byte for byte."""
    for rank, shards in enumerate(written):
        for name, record in shards.records.items():
            if sealed.get(name) != record:
                what = "has other contents" if name in sealed else "is missing"
                raise UserError(
                    f"{name}, written by process {rank} on {shards.host}, {what} in the folder that the first process "
                    f"sees; {WAY_OUT}"
                )


def check_shared(folder: Path, world: World) -> None:
    """Check that all processes see the same folder: the first creates a file, and the others look for it."""
    token = uuid4().hex

    def make() -> str:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROBE.format(token=token)).touch()
        except OSError as error:
            raise UserError(f"{folder}: no file can be made there ({error.strerror}).") from error
        return token

    probe = folder / PROBE.format(token=world.on_first(make))

    def look() -> None:
        until = time.monotonic() + SECONDS_TO_APPEAR
        while not probe.exists():
            if time.monotonic() > until:
                raise UserError(
                    f"{folder}: process {world.rank} on {socket.gethostname()} does not see the files of the first "
                    f"process there, and a sharded model is saved by all of them; {WAY_OUT}"
                )
            time.sleep(0.1)

    try:
        world.on_all(look)
    finally:
        if world.is_first:
            probe.unlink(missing_ok=True)


def read_shards(folder: Path, like: ShardedLike) -> dict[str, Tensor]:
    """Read all tensors of the shards in the folder."""
    reader = HuggingFaceStorageReader(str(folder))
    tensors = {}
    for name, entry in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(entry, TensorStorageMetadata)
        tensors[name] = _empty(entry, like(name))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # intended: each process reads by itself
            load(tensors, storage_reader=reader, no_dist=True)
    except CheckpointException as failed:
        raise _as_one_error(failed) from failed
    return tensors


def _empty(entry: TensorStorageMetadata, like: Tensor | None) -> Tensor:
    dtype = entry.properties.dtype
    if like is None or like.shape != entry.size:  # a counter of the optimiser; or another model, which is refused later
        return torch.empty(entry.size, dtype=dtype)
    return torch.empty_like(like, dtype=dtype)


def _as_one_error(failed: CheckpointException) -> OSError:
    """Torch gathers the exceptions of all processes; the first one is raised."""
    error, _ = next(iter(failed.failures.values()))
    return error if isinstance(error, OSError) else OSError(str(error))
