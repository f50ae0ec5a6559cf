"""The repeated layers and the norms of a foreign module, found without running it.

Layers are the members of a list or sequence of modules that repeat: all of one class, or a pattern of classes that
recurs (attention, feed-forward, attention, …), or whole layers of a few classes in any order, as in hybrid models.
Lists inside such a list, as of experts, do not count, unless its members are stages of different width: then the list
of each stage does. A model without any list that repeats may call a single layer several times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from lamina.errors import UserError

CROSS_ATTENTION = re.compile(r"cross_?att|enc(oder)?_?(dec(oder)?_?)?att|multihead_attn", re.IGNORECASE)
CROSS_ATTENTION_CLASS = re.compile(r"cross_?att|enc(oder)?_?dec(oder)?_?att", re.IGNORECASE)
WHOLE_LAYER = re.compile(r"(decoder|encoder|hybrid)_?(layer|block)$", re.IGNORECASE)
"""Classes of whole layers, of which a hybrid model has several: `JambaMambaDecoderLayer`."""
LISTS = (nn.ModuleList, nn.Sequential)
OVER_OTHER_DIMENSIONS = (_NormBase, nn.GroupNorm)


@dataclass(frozen=True, eq=False)
class RepeatedLayers:
    """A list of modules that are the layers of a stack, or parts of its layers."""

    name: str
    """The path of the module that holds the list, such as `bert.encoder`; that of the list where it holds several."""
    path: str
    """The path of the list."""
    members: tuple[nn.Module, ...]
    period: int
    """The number of members that make a layer: more than 1 where attention and feed-forward are separate members."""
    calls_repeat: bool = False
    """Whether there is one member, which is called several times: every call is a layer."""

    def layer_of(self, member: int) -> int:
        return member // self.period

    @property
    def num_layers(self) -> int:
        return len(self.members) // self.period


def find_repeated_layers(module: nn.Module) -> list[RepeatedLayers]:
    """The outermost lists of repeated layers in the order of the module; only without any, attributes that repeat."""
    found = _outermost(module, LISTS) or _outermost(module, (nn.Module,)) or _single(module)
    if not found:
        raise UserError(
            f"{type(module).__name__} has no repeated layers: looked for a list or sequence of at least two modules of "
            f"the same class with weight matrices, and found {_inventory(module)}. Pass the part that holds the layers "
            "in an nn.ModuleList or nn.Sequential"
        )
    owners = Counter(_owner(path) for path, _, _ in found)
    return [
        RepeatedLayers(
            _owner(path) if owners[_owner(path)] == 1 else path, path, tuple(members), period, len(members) == 1
        )
        for path, members, period in found
    ]


def _owner(path: str) -> str:
    """The path of the module that holds a list of layers, such as `bert.encoder`."""
    return path.rpartition(".")[0] or "stack"


def _outermost(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> list[tuple[str, list[nn.Module], int]]:
    found: list[tuple[str, list[nn.Module], int]] = []
    inside: set[nn.Module] = set()
    for path, container in module.named_modules():
        if container in inside or not isinstance(container, kinds):
            continue
        members = [child for child in container._modules.values() if child is not None and _is_composite(child)]
        period = _period([_signature(member) for member in members])
        if period is not None and not _are_stages(members):
            found.append((path, members, period))
            inside.update(each for member in members for each in member.modules())
    return found


def _single(module: nn.Module) -> list[tuple[str, list[nn.Module], int]]:
    """The only list with one composite member, which may be called several times, as in ALBERT."""
    found: list[tuple[str, list[nn.Module], int]] = []
    inside: set[nn.Module] = set()
    for path, container in module.named_modules():
        members = [child for child in container.children() if _is_composite(child)]
        if isinstance(container, nn.ModuleList) and len(members) == 1 and container not in inside:
            found.append((path, members, 1))
            inside.update(members[0].modules())
    return found if len(found) == 1 else []


def _are_stages(members: Sequence[nn.Module]) -> bool:
    """Whether the members hold lists of layers themselves and differ in width, as the stages of Swin."""
    if not all(_outermost(member, LISTS) for member in members):
        return False
    shapes = [{name: each.shape for name, each in member.named_parameters()} for member in members]
    common = set.intersection(*(set(each) for each in shapes))
    different = [name for name in common if len({each[name] for each in shapes}) > 1]
    return len(different) > len(common) / 2


def _is_composite(module: nn.Module) -> bool:
    """Whether it consists of other modules and has a weight matrix."""
    has_matrix = any(parameter.dim() >= 2 for parameter in module.parameters())
    return has_matrix and next(module.children(), None) is not None


def _signature(module: nn.Module) -> str:
    """The name of the class; of a list, the classes of its members."""
    if isinstance(module, nn.ModuleList):
        return f"[{', '.join(_signature(child) for child in module.children())}]"
    return type(module).__name__


def _period(signatures: Sequence[str]) -> int | None:
    """The length of the pattern that fills the list when it is repeated, at least twice; None if nothing repeats.

    Members whose classes are whole layers, by their names, have period 1, whatever their order.
    """
    length = len(signatures)
    if length > 1 and all(WHOLE_LAYER.search(each) for each in signatures):
        return 1
    for period in range(1, length // 2 + 1):
        if length % period == 0 and all(signatures[at] == signatures[at % period] for at in range(length)):
            return period
    return None


def _inventory(module: nn.Module) -> str:
    counts = Counter(type(each).__name__ for each in module.modules() if each is not module)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(5)) or "no modules inside it"


def is_norm(module: nn.Module) -> bool:
    """Whether it normalises the last dimension, by its class, its class's name, or having a gain (and a bias) alone."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return True
    if isinstance(module, (*OVER_OTHER_DIMENSIONS, nn.PReLU)) or any(each.dim() > 1 for each in module.parameters()):
        return False
    if "norm" in type(module).__name__.lower():
        return True
    names = [name for name, _ in module.named_parameters()]
    return names in (["weight"], ["weight", "bias"])


def find_norms(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every norm with its path; a norm that contains another one counts once."""
    inside: set[nn.Module] = set()
    for path, each in module.named_modules():
        if each not in inside and is_norm(each):
            inside.update(each.modules())
            yield path, each


def is_cross_attention(path: str, module: nn.Module) -> bool:
    """Whether a module is attention to another stack, by its name in the layer or its class's name."""
    return bool(CROSS_ATTENTION.search(path.rpartition(".")[2]) or CROSS_ATTENTION_CLASS.search(type(module).__name__))


def is_state_space(module: nn.Module) -> bool:
    """Whether a module is a state-space mixer, such as Mamba's, which has the parameter `A_log`."""
    return "A_log" in module._parameters


def puts_batch_first(module: nn.Module) -> bool:
    """Whether the first dimension of an input is the batch; in torch's own attention it may be the second."""
    return all(getattr(each, "batch_first", True) for each in module.modules())
