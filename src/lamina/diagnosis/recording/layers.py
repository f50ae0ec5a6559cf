"""The layers of any model by stack: Lamina's own stacks, else the repeated layers that are found by structure."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lamina.diagnosis.recording.matrices import NamedMatrix, name_matrices
from lamina.diagnosis.recording.own import own_stacks, stack_name
from lamina.diagnosis.recording.structure import find_chains
from lamina.model.stack import Stack


@dataclass(frozen=True, eq=False)
class Layers:
    """What a model is made of, as far as a watch is concerned."""

    layers: dict[str, list[list[nn.Module]]]
    """For every stack the modules of every layer."""
    matrices: list[NamedMatrix]
    schemes: tuple[str, ...]
    """Of Lamina's own stacks; empty for a foreign model."""


def find_layers(model: nn.Module) -> Layers:
    own: dict[str, Stack] = {stack_name(path): stack for path, stack in own_stacks(model)}
    layers: dict[str, list[list[nn.Module]]] = {
        name: [[layer] for layer in stack.layers] for name, stack in own.items()
    }
    for chain in find_chains(model) if not own else ():
        starts = range(0, len(chain.members), chain.period)
        layers[chain.name] = [list(chain.members[first : first + chain.period]) for first in starts]
    schemes = tuple(dict.fromkeys(stack.residual.name for stack in own.values()))
    return Layers(layers, name_matrices(model, layers, own), schemes)


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself, without what distributes or compiles it. FSDP2 wraps nothing; FSDP1 is not supported."""
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, DistributedDataParallel) else model._orig_mod  # type: ignore[assignment]
    return model
