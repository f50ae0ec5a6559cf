"""What measures read from a record, and how they say that they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.diagnosis.recording.records import NormRecord, Record, Seen, StackRecord, SublayerRecord
from lamina.residual.base import Placement

SAMPLE = 64
"""Positions that are enough to tell whether two tensors are the same one."""


class NotMeasurable(Exception):
    """A quantity cannot be measured here; the message says what is missing."""


def stacks_of(record: Record) -> list[StackRecord]:
    """The stacks that have sub-layers, or the reason why there are none."""
    found = [stack for stack in record.stacks if stack.sublayers]
    if not found:
        raise NotMeasurable("no stack of repeated layers was recorded")
    return found


def positions(stack: StackRecord, seen: Seen) -> Tensor:
    """The vectors at real positions, (positions, dim), in single precision at least."""
    value = seen.value if stack.real is None else seen.value[stack.real]
    return value.to(torch.promote_types(value.dtype, torch.float32)).flatten(0, -2)


def stream(stack: StackRecord) -> list[Seen]:
    """x₀, x₁, … xₙ: the first stream before the first sub-layer and after each."""
    return [stack.sublayers[0].before[0], *(sublayer.after[0] for sublayer in stack.sublayers)]


def streams(stack: StackRecord) -> dict[str, list[Seen]]:
    """Every stream like `stream`, by label: the first has the stack's name alone. Of one that grows the newest part is
    meant; one that only keeps what the first stream was, as the input of a layer, is left out."""
    lines = {stack.name: stream(stack)}
    known = {id(seen) for seen in lines[stack.name]}
    states = [stack.sublayers[0].before, *(sublayer.after for sublayer in stack.sublayers)]
    last = len(stack.streams) - 1
    for number, name in enumerate(stack.streams[1:], start=1):
        line = [state[-1] if number == last else state[number] for state in states]
        if any(id(seen) not in known for seen in line):
            lines[f"{stack.name} {name}"] = line
    return lines


def as_state(stack: StackRecord, parts: Sequence[Tensor]) -> Any:
    """The parts put together as the scheme knows them."""
    return tuple(parts) if len(stack.streams) > 1 else parts[0]


def layer_outputs(stack: StackRecord) -> list[Seen]:
    """What each layer leaves in the first stream, before any final norm."""
    return [sublayer.after[0] for sublayer in stack.sublayers if sublayer.place.last]


def norms_of(stack: StackRecord) -> list[NormRecord]:
    if not stack.norms:
        raise NotMeasurable(f"no norm was recorded in the {stack.name}")
    return stack.norms


def branch_of(stack: StackRecord, sublayer: SublayerRecord) -> Seen:
    if sublayer.branch is None:
        raise NotMeasurable(f"the branches of the {stack.name} could not be told from its stream")
    return sublayer.branch


def variance(stack: StackRecord, seen: Seen) -> float:
    """Over all real positions and all channels."""
    return positions(stack, seen).var(correction=0).item()


def placement_of(stack: StackRecord) -> Placement | None:
    """Where the norms stand: the scheme's own word, or found from what came out of them; None if it cannot be told."""
    if stack.own is not None:
        return stack.own.residual.placement
    if any(sublayer.branch is None for sublayer in stack.sublayers):
        return None
    after = _some_leave([sublayer.after[0] for sublayer in stack.sublayers], stack.norms)
    apart = [sublayer.read for sublayer in stack.sublayers if not same(sublayer.read, sublayer.before[0])]
    before = _some_leave(apart, stack.norms)  # what reads the stream as it is may find a norm's output there
    if after:
        return "both" if before else "post"
    return "pre" if before else "none"


def placements(stacks: Sequence[StackRecord]) -> dict[str, Placement | None]:
    return {stack.name: placement_of(stack) for stack in stacks}


def _some_leave(places: Sequence[Seen], norms: Sequence[NormRecord]) -> bool:
    return any(same(norm.output, place) for place in places for norm in norms)


def same(one: Seen, other: Seen) -> bool:
    """Whether two recorded tensors hold the same numbers, as far as a few positions tell."""
    if one.value.shape != other.value.shape:
        return False
    return torch.equal(one.value.flatten(0, -2)[:SAMPLE], other.value.flatten(0, -2)[:SAMPLE])
