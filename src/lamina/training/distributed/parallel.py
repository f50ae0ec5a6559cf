"""Data parallelism: each process has a copy of the model (DDP), or a shard of every weight (FSDP2).

The loop asks for three things, whatever the answer is: the network to call in training, when gradients are exchanged,
and a while in which every process has all weights at hand.
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

Way = Literal["ddp", "fsdp"]


class Parallel:
    """One process. In the subclasses gradients are averaged over the processes."""

    def __init__(self, model: Transformer) -> None:
        self.network: nn.Module = model

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Around the forward and backward pass of a micro-batch: gradients are exchanged after the last one only."""
        return nullcontext()

    def gathered(self) -> AbstractContextManager[None]:
        """All weights in every process: the model's methods may be called, and by each as often as it needs.

        All must call the same ones last, for sharding remembers in which order layers were used.
        """
        return nullcontext()


class Copies(Parallel):
    def __init__(self, model: Transformer) -> None:
        self.network: DistributedDataParallel = DistributedDataParallel(model)

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else self.network.no_sync()


class Slices(Parallel):
    """The weights of a layer are gathered when it is computed and released afterwards.

    Parameters become `DTensor`s, so the optimiser must be built afterwards; its state is then sliced alike.
    """

    def __init__(self, model: Transformer, world: World) -> None:
        # Layers may return a view of the stream, which is never modified in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(world.device.type, (world.size,))
        self._layers = [fully_shard(layer, mesh=mesh) for stack in model.stacks() for layer in stack.layers]
        self._root = fully_shard(model, mesh=mesh)  # embedding tables, heads, parameters of the scheme outside layers
        self.network = model

    @contextmanager
    def accumulating(self, last: bool) -> Iterator[None]:
        self._root.set_requires_gradient_sync(last)
        self._root.set_is_last_backward(last)
        yield

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Without this, generating text would exchange every layer for every token; and a process that ends a sentence
        earlier than another, by a rounding error, would leave it waiting for ever.
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


def share_out(model: Transformer, way: Way, world: World) -> Parallel:
    """Distribute a model over the processes, after calibration and before the optimiser is built."""
    if world.size == 1:
        return Parallel(model)
    return Copies(model) if way == "ddp" else Slices(model, world)


def whole(value: Tensor) -> Tensor:
    """The full tensor of a sharded or partially summed one; all processes must call it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def own(value: Tensor) -> Tensor:
    """The shard of this process."""
    return value.to_local() if isinstance(value, DTensor) else value


def sliced_as(like: Tensor, value: Tensor) -> Tensor:
    """The value sharded like `like`, if that is sharded and has the same shape; else the value."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
