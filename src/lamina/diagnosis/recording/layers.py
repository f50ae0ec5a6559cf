"""The layers of any model by stack: Lamina's own stacks, else the repeated layers that are found by structure."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lamina.diagnosis.recording.matrices import NamedMatrix, name_matrices
from lamina.diagnosis.recording.own import own_stacks, stack_name
from lamina.diagnosis.recording.structure import find_repeated_layers
from lamina.model.stack import Stack

WRAPPERS = (DistributedDataParallel, nn.DataParallel)


@dataclass(frozen=True, eq=False)
class ModelLayers:
    """The stacks, layers and weight matrices of a model."""

    layers: dict[str, list[list[nn.Module]]]
    """For every stack the modules of every layer."""
    matrices: list[NamedMatrix]
    schemes: tuple[str, ...]
    """The residual schemes of Lamina's own stacks; empty for a foreign model."""

    @property
    def output_stack(self) -> str | None:
        """The stack from which the loss is computed: the one with cross-attention, else the last one of the model."""
        names = {each.name.location: each.name for each in self.matrices if each.name.layer is not None}
        crossing = [each.stack for each in names.values() if each.cross_attention]
        return next(reversed(crossing or [each.stack for each in names.values()]), None)


def find_layers(model: nn.Module) -> ModelLayers:
    own: dict[str, Stack] = {stack_name(path): stack for path, stack in own_stacks(model)}
    layers: dict[str, list[list[nn.Module]]] = {
        name: [[layer] for layer in stack.layers] for name, stack in own.items()
    }
    for found in find_repeated_layers(model) if not own else ():
        starts = range(0, len(found.members), found.period)
        layers[found.name] = [list(found.members[first : first + found.period]) for first in starts]
    schemes = tuple(dict.fromkeys(stack.residual.name for stack in own.values()))
    return ModelLayers(layers, name_matrices(model, layers, own), schemes)


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel or torch.compile; FSDP2 wraps nothing, and FSDP1 is not supported."""
    while isinstance(model, WRAPPERS) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, WRAPPERS) else model._orig_mod  # type: ignore[assignment]
    return model
