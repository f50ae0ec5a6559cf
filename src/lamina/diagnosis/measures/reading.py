"""Values that measures read from a record: streams, layer outputs, variances, and the placement of the norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.recording.records import NormRecord, Record, RecordedTensor, StackRecord, SublayerRecord
from lamina.residual.base import Placement

SAMPLE = 64
"""The number of positions that are compared to decide whether two tensors are the same."""


def stacks_of(record: Record) -> list[StackRecord]:
    """The stacks that have sub-layers, or the reason why there are none."""
    found = [stack for stack in record.stacks if stack.sublayers]
    if not found:
        raise NotMeasurable("no stack of repeated layers was recorded")
    return found


def positions(stack: StackRecord, seen: RecordedTensor) -> Tensor:
    """The vectors at real positions, (positions, dim), in at least single precision."""
    value = seen.value if stack.real is None else seen.value[stack.real]
    return value.to(torch.promote_types(value.dtype, torch.float32)).flatten(0, -2)


def stream(stack: StackRecord) -> list[RecordedTensor]:
    """x₀, x₁, … xₙ: the first stream before the first sub-layer and after each."""
    return [stack.sublayers[0].before[0], *(sublayer.after[0] for sublayer in stack.sublayers)]


def streams(stack: StackRecord) -> dict[Location, list[RecordedTensor]]:
    """Every stream, as in `stream`, by location. Of a stream that grows by a part per layer, the newest part is used. A
    stream that only holds earlier values of the first stream, such as the input of a layer, is left out."""
    lines = {Location(stack=stack.name): stream(stack)}
    known = {id(recorded) for recorded in lines[Location(stack=stack.name)]}
    states = [stack.sublayers[0].before, *(sublayer.after for sublayer in stack.sublayers)]
    last = len(stack.streams) - 1
    for number, name in enumerate(stack.streams[1:], start=1):
        line = [state[-1] if number == last else state[number] for state in states]
        if any(id(recorded) not in known for recorded in line):
            lines[Location(stack=stack.name, stream=name)] = line
    return lines


def as_state(stack: StackRecord, parts: Sequence[Tensor]) -> Any:
    """The parts of a state in the form that the scheme expects: a tensor, or a tuple of tensors."""
    return tuple(parts) if len(stack.streams) > 1 else parts[0]


def layer_outputs(stack: StackRecord) -> list[RecordedTensor]:
    """The first stream after each layer, before any final norm."""
    return [sublayer.after[0] for sublayer in stack.sublayers if sublayer.place.last]


def norms_of(stack: StackRecord) -> list[NormRecord]:
    if not stack.norms:
        raise NotMeasurable(f"no norm was recorded in the {stack.name}")
    return stack.norms


def branch_of(stack: StackRecord, sublayer: SublayerRecord) -> RecordedTensor:
    if sublayer.branch is None:
        raise NotMeasurable(f"the branches of the {stack.name} could not be separated from its stream")
    return sublayer.branch


def variance(stack: StackRecord, seen: RecordedTensor) -> float:
    """The variance over all real positions and all channels."""
    return positions(stack, seen).var(correction=0).item()


def placement_of(stack: StackRecord) -> Placement | None:
    """The placement of the norms, declared by the scheme or inferred from the norms' outputs; None if unknown."""
    if stack.own is not None:
        return stack.own.residual.placement
    if any(sublayer.branch is None for sublayer in stack.sublayers):
        return None
    after = _some_norm_ends_at([sublayer.after[0] for sublayer in stack.sublayers], stack.norms)
    apart = [sublayer.read for sublayer in stack.sublayers if not same(sublayer.read, sublayer.before[0])]
    before = _some_norm_ends_at(apart, stack.norms)  # what reads the stream as it is may find a norm's output there
    if after:
        return "both" if before else "post"
    return "pre" if before else "none"


def placements(stacks: Sequence[StackRecord]) -> dict[str, Placement | None]:
    return {stack.name: placement_of(stack) for stack in stacks}


def _some_norm_ends_at(places: Sequence[RecordedTensor], norms: Sequence[NormRecord]) -> bool:
    return any(same(norm.output, place) for place in places for norm in norms)


def same(one: RecordedTensor, other: RecordedTensor) -> bool:
    """Whether two recorded tensors hold the same numbers, judged by a few positions."""
    if one.value.shape != other.value.shape:
        return False
    return torch.equal(one.value.flatten(0, -2)[:SAMPLE], other.value.flatten(0, -2)[:SAMPLE])
