"""How processes share a model: each has a copy of it and gradients are averaged (DDP), or each keeps a slice (FSDP2).

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
    """One process: nothing to share. Gradients are averages over the processes, here and below."""

    def __init__(self, model: Transformer) -> None:
        self.network: nn.Module = model

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Around a piece of a batch, forwards and backwards: gradients are exchanged after the last one only."""
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
    """A layer's weights are brought together when it is reached and given up after it.

    Parameters become `DTensor`s, so the optimiser must be built afterwards; its state is then sliced alike.
    """

    def __init__(self, model: Transformer, world: World) -> None:
        # Layers may hand on a view of the stream: nothing is ever done to the stream in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(world.device.type, (world.size,))
        self._layers = [fully_shard(layer, mesh=mesh) for stack in model.stacks() for layer in stack.layers]
        self._root = fully_shard(model, mesh=mesh)  # tables, heads, what schemes keep beside layers
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
    """Calibrate before, build the optimiser after."""
    if world.size == 1:
        return Parallel(model)
    return Copies(model) if way == "ddp" else Slices(model, world)


def whole(value: Tensor) -> Tensor:
    """The tensor that processes hold in slices, or whose sum they have yet to take; all must ask for it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def own(value: Tensor) -> Tensor:
    """What this process holds of it."""
    return value.to_local() if isinstance(value, DTensor) else value


def sliced_as(like: Tensor, value: Tensor) -> Tensor:
    """What this process keeps of a value that it has whole, if `like` lies in slices and the value is of its shape."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
