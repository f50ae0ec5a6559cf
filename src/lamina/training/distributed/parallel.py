"""How processes share a model: replicated, with averaged gradients (DDP), or sharded (FSDP2).

The training loop needs three things of either: the module to call in training, when gradients are exchanged, and a
context in which every process has all weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from lamina.model.transformer import Transformer
from lamina.training.distributed.world import World

Strategy = Literal["ddp", "fsdp"]


class Parallel:
    """A model in one process; subclasses average the gradients of several processes."""

    def __init__(self, model: Transformer) -> None:
        self.network: nn.Module = model

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """The context of a micro-batch's forward and backward pass: gradients are exchanged after the last one only."""
        return nullcontext()

    def gathered(self) -> AbstractContextManager[None]:
        """A context in which every process has all weights and may call the model as often as it needs.

        All processes must end with the same calls, because FSDP2 remembers in which order layers were used.
        """
        return nullcontext()


class Replicated(Parallel):
    def __init__(self, model: Transformer) -> None:
        self.network: DistributedDataParallel = DistributedDataParallel(model)

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else self.network.no_sync()


class Sharded(Parallel):
    """FSDP2: a layer's weights are gathered when it is reached and released after it.

    Parameters become `DTensor`s, so the optimiser must be built afterwards; its state is then sharded alike.
    """

    def __init__(self, model: Transformer, world: World) -> None:
        # Layers may return a view of the stream: the stream is never changed in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(world.device.type, (world.size,))
        self._layers = [fully_shard(layer, mesh=mesh) for stack in model.stacks() for layer in stack.layers]
        self._root = fully_shard(
            model, mesh=mesh
        )  # embedding tables, heads, and parameters of the scheme outside layers
        self.network = model

    @contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        self._root.set_requires_gradient_sync(last)
        self._root.set_is_last_backward(last)
        yield

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Gather every layer once and keep it gathered.

        Otherwise generation would gather every layer for every token, and the other processes would wait for one whose
        sentence ends earlier because of a rounding error.
        """
        everything = (*self._layers, self._root)
        for module in everything:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for layer in self._layers:
                layer.set_reshard_after_forward(True, recurse=False)
            for module in everything:
                module.reshard()


def parallelise(model: Transformer, strategy: Strategy, world: World) -> Parallel:
    """Share the model among processes; to be called after calibration and before the optimiser is built."""
    if world.size == 1:
        return Parallel(model)
    return Replicated(model) if strategy == "ddp" else Sharded(model, world)


def full_tensor(value: Tensor) -> Tensor:
    """A tensor that is sharded, or whose sum over processes is pending, as a whole; all processes must call it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def local_part(value: Tensor) -> Tensor:
    """The part of a sharded tensor that this process holds."""
    return value.to_local() if isinstance(value, DTensor) else value


def shard_like(like: Tensor, value: Tensor) -> Tensor:
    """This process's shard of a whole tensor, if `like` is sharded and of the same shape; else the tensor itself."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
