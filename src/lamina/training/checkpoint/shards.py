"""Tensors that are sharded over several processes, as safetensors files: each process writes its own part.

    model/
      shard-00001-model-00001-of-00001.safetensors     each file records the offsets of its parts
      shard-00002-model-00001-of-00001.safetensors

These are torch's distributed checkpoints with safetensors storage; the default storage keeps its metadata as a pickle.
Any number of processes can read them: each reads the parts that overlap with what it holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from lamina.training.checkpoint.snapshot import Tensors

ShardedLike = Callable[[str], Tensor | None]
"""By name, a tensor whose sharding the one that is read gets; None for a whole tensor."""


def are_sharded(tensors: Tensors) -> bool:
    return any(isinstance(each, DTensor) for each in tensors.values())


def write_shards(folder: Path, tensors: Tensors) -> None:
    """Write and sync the files; to be called by all processes."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(dict(tensors), storage_writer=writer)
    except CheckpointException as failed:
        raise _as_one_error(failed) from failed


def read_shards(folder: Path, like: ShardedLike) -> dict[str, Tensor]:
    """All tensors of the shards in the folder."""
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
