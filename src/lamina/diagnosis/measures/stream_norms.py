"""Squared norms of the residual stream, of the branches, and of the inputs and outputs of the norms, by sub-layer.

    E‖x‖² ÷ d,  d the width

Xiong et al. 2020, Lemma 2, for inputs with E‖x₀‖² = d and matrices N(0, 1/d): in pre-LN every feed-forward sub-layer
adds d/2 and every attention between 0 and d, so that after l layers of both

    (1 + l/2)·d  ≤  E‖x_l‖²  ≤  (1 + 3l/2)·d,

and in post-LN the input of the norm after a feed-forward sub-layer has 3d/2 everywhere. Facts: `δ` of Definition 1, the
share of positions whose squared norm exceeds the mean by more than ε = 0.1, at the input of the stack's last norm;
`branch/read`, for each kind of sub-layer, the mean squared norm of its output ÷ that of its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, require
from lamina.diagnosis.measures.reading import branch_of, placement_of, positions, stacks_of, streams
from lamina.diagnosis.measures.statistics import ratio
from lamina.diagnosis.recording.records import RecordedTensor, StackRecord

EPSILON = 0.1
STREAM = "stream"
"""The quantity of the lines that show a residual stream."""
ATTENTION = ("attention", "self-attention", "cross-attention")

DELTA = FactName("δ")
BRANCH_TO_READ = FactName("branch/read")


class StreamNorms(Measure):
    title = "Norms of the stream, the branches and the norms"
    formula = "E‖x‖² ÷ d after every sub-layer"
    source = "Xiong et al. 2020, Lemma 2 and Definition 1"
    look_for = (
        "In a stream that grows with depth every later branch counts for less; one that explodes exceeds the range of "
        "half precision. The dashed lines are Lemma 2, for matrices drawn from N(0, 1/d)."
    )
    axes = Axes(x="sub-layer", y="mean squared norm ÷ width")
    needs = ("record",)
    position = 40

    def take(self, evidence: Evidence) -> Measurement:
        stacks = stacks_of(require(evidence.record))
        measured = [each for stack in stacks for each in _measured(stack)]
        predicted = [each for stack in stacks for each in _predicted(stack)]
        return self.measurement([*measured, *predicted], facts=[fact for stack in stacks for fact in _facts(stack)])


def squared_norms(stack: StackRecord, recorded: RecordedTensor) -> Tensor:
    """‖x‖² ÷ d of every real position."""
    return positions(stack, recorded).square().mean(-1)


def _size(stack: StackRecord, recorded: RecordedTensor) -> float:
    return squared_norms(stack, recorded).mean().item()


def _measured(stack: StackRecord) -> Iterator[Series]:
    for location, line in streams(stack).items():
        sizes = tuple(_size(stack, each) for each in line)
        yield Series(location=location, quantity=STREAM, x=tuple(range(len(line))), y=sizes)
    branched = [each for each in stack.sublayers if each.branch is not None]
    if branched:
        sizes = tuple(_size(stack, branch_of(stack, each)) for each in branched)
        yield _of_stack(stack, "branch", [each.place.index + 1 for each in branched], sizes)
    inside = [(norm.sublayer + 1, norm) for norm in stack.norms if norm.sublayer is not None]
    if inside:
        places = [place for place, _ in inside]
        yield _of_stack(stack, "norm input", places, [_size(stack, norm.input) for _, norm in inside])
        yield _of_stack(stack, "norm output", places, [_size(stack, norm.output) for _, norm in inside])


def _of_stack(stack: StackRecord, quantity: str, x: Sequence[int], y: Sequence[float]) -> Series:
    return Series(location=Location(stack=stack.name), quantity=quantity, x=tuple(x), y=tuple(y))


def _predicted(stack: StackRecord) -> Iterator[Series]:
    """The predictions of Lemma 2 for a stack of attention and feed-forward sub-layers."""
    kinds = [sublayer.place.kind for sublayer in stack.sublayers]
    is_attention = np.array([kind in ATTENTION for kind in kinds])
    is_feed_forward = np.array([kind == "feed-forward" for kind in kinds])
    location = Location(stack=stack.name)
    if not (is_attention | is_feed_forward).all():
        return
    match placement_of(stack):
        case "pre":
            start, every = _size(stack, stack.sublayers[0].before[0]), tuple(range(len(kinds) + 1))
            for quantity, attention in (("at least", 0.0), ("at most", 1.0)):
                growth = np.cumsum(0.5 * is_feed_forward + attention * is_attention)
                y = (start, *(start + growth).tolist())
                yield Series(location=location, quantity=quantity, role="bound", x=every, y=y)
        case "post" if is_feed_forward.any():
            places = tuple((np.flatnonzero(is_feed_forward) + 1).tolist())
            yield Series(
                location=location,
                quantity="feed-forward norm input",
                role="predicted",
                predicts="norm input",
                x=places,
                y=(1.5,) * len(places),
            )


def _facts(stack: StackRecord) -> Iterator[Fact]:
    if stack.norms:
        size = squared_norms(stack, stack.norms[-1].input)
        share = (size > (1 + EPSILON) * size.mean()).float().mean().item()
        yield Fact(name=DELTA, location=Location(stack=stack.name), value=share)
    if all(sublayer.branch is not None for sublayer in stack.sublayers):
        for kind in dict.fromkeys(sublayer.place.kind for sublayer in stack.sublayers):
            ratios = [
                ratio(_size(stack, branch_of(stack, each)), _size(stack, each.read))
                for each in stack.sublayers
                if each.place.kind == kind
            ]
            location = Location(stack=stack.name, sublayer_kind=kind)
            yield Fact(name=BRANCH_TO_READ, location=location, value=float(np.mean(ratios)))
