"""Squared norms of the stream, the branches, and what enters and leaves the norms, by sub-layer.

    E‖x‖² ÷ d,  d the width

Xiong et al. 2020, Lemma 2, for inputs with E‖x₀‖² = d and matrices N(0, 1/d): in pre-LN every feed-forward sub-layer
adds d/2 and every attention between 0 and d, so that after l layers of both

    (1 + l/2)·d  ≤  E‖x_l‖²  ≤  (1 + 3l/2)·d,

and in post-LN the norm after a feed-forward sub-layer reads 3d/2 everywhere. Beside it Definition 1: δ, the share of
positions whose squared norm exceeds the mean by more than ε = 0.1, at the input of the stack's last norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.line import ratio
from lamina.diagnosis.measures.reading import branch_of, placement_of, positions, stacks_of, streams
from lamina.diagnosis.recording.records import Record, Seen, StackRecord
from lamina.diagnosis.results import Measure, Series

EPSILON = 0.1
MEASURE = Measure(
    key="stream-norms",
    title="Norms of the stream, the branches and the norms",
    formula="E‖x‖² ÷ d after every sub-layer",
    source="Xiong et al. 2020, Lemma 2 and Definition 1",
    look_for="A stream that grows with depth makes every later branch count for less; one that explodes leaves the "
    "range of half precision. The broken lines are Lemma 2, for matrices drawn from N(0, 1/d).",
    x_label="sub-layer",
    y_label="mean squared norm ÷ width",
)


def take(records: Sequence[Record]) -> Measure:
    return average([_take(record) for record in records])


def _take(record: Record) -> Measure:
    stacks = stacks_of(record)
    measured = [line for stack in stacks for line in _measured(stack)]
    theory = [line for stack in stacks for line in _theory(stack)]
    facts = {name: value for stack in stacks for name, value in _facts(stack)}
    return MEASURE.model_copy(update={"measured": tuple(measured), "theory": tuple(theory), "facts": facts})


def squared_norms(stack: StackRecord, seen: Seen) -> Tensor:
    """‖x‖² ÷ d of every real position."""
    return positions(stack, seen).square().mean(-1)


def _size(stack: StackRecord, seen: Seen) -> float:
    return squared_norms(stack, seen).mean().item()


def _measured(stack: StackRecord) -> Iterator[Series]:
    for label, line in streams(stack).items():
        yield _line(label, range(len(line)), [_size(stack, seen) for seen in line])
    answered = [each for each in stack.sublayers if each.branch is not None]
    if answered:
        sizes = [_size(stack, branch_of(stack, each)) for each in answered]
        yield _line(f"{stack.name} branch", [each.place.index + 1 for each in answered], sizes)
    inside = [(norm.sublayer + 1, norm) for norm in stack.norms if norm.sublayer is not None]
    if inside:
        places = [place for place, _ in inside]
        yield _line(f"{stack.name} into norms", places, [_size(stack, norm.input) for _, norm in inside])
        yield _line(f"{stack.name} out of norms", places, [_size(stack, norm.output) for _, norm in inside])


def _line(label: str, x: Sequence[int], y: Sequence[float]) -> Series:
    return Series(label=label, x=tuple(x), y=tuple(y))


def _theory(stack: StackRecord) -> Iterator[Series]:
    """What Lemma 2 says of a stack of attention and feed-forward sub-layers."""
    kinds = [sublayer.place.kind for sublayer in stack.sublayers]
    is_attention = np.array([kind.endswith("attention") for kind in kinds])
    is_feed_forward = np.array([kind == "feed-forward" for kind in kinds])
    if not (is_attention | is_feed_forward).all():
        return
    match placement_of(stack):
        case "pre":
            start, every = _size(stack, stack.sublayers[0].before[0]), tuple(range(len(kinds) + 1))
            for label, attention in (("at least", 0.0), ("at most", 1.0)):
                growth = np.cumsum(0.5 * is_feed_forward + attention * is_attention)
                y = (start, *(start + growth).tolist())
                yield Series(label=f"{stack.name} {label}", x=every, y=y, dashes=True)
        case "post" if is_feed_forward.any():
            places = (np.flatnonzero(is_feed_forward) + 1).tolist()
            yield Series(
                label=f"{stack.name} into feed-forward norms", x=tuple(places), y=(1.5,) * len(places), dashes=True
            )


def _facts(stack: StackRecord) -> Iterator[tuple[str, float]]:
    if stack.norms:
        size = squared_norms(stack, stack.norms[-1].input)
        yield f"{stack.name} δ", (size > (1 + EPSILON) * size.mean()).float().mean().item()
    if all(sublayer.branch is not None for sublayer in stack.sublayers):
        for kind in dict.fromkeys(sublayer.place.kind for sublayer in stack.sublayers):
            ratios = [
                ratio(_size(stack, branch_of(stack, each)), _size(stack, each.read))
                for each in stack.sublayers
                if each.place.kind == kind
            ]
            yield f"{stack.name} {kind} branch/read", float(np.mean(ratios))
