"""residual-fig2: its claims on made-up results."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lamina.studies.papers.residual_blocks import DEVIATIONS
from lamina.studies.papers.residual_decoders import SCHEMES
from lamina.studies.papers.residual_fig2 import ResidualFig2
from lamina.studies.papers.residual_panels import STACKS, TRAINED_CHANGE
from lamina.studies.result_table import ResultRow, ResultTable
from support.made_results import Change, check_claims, rows

NUMBERS = (12, 24, 48)


def as_in_the_paper() -> Iterator[ResultRow]:
    for k in range(1, 25):
        yield from rows("squared norm of the sum", 2.0, scheme="post-ln", block=k)
        yield from rows("squared norm of the sum", 1.0 + k, scheme="pre-ln", block=k)
        yield from rows("change of the output", k**-0.5, block=k)
        for embedding in ("none", "Gaussian"):
            yield from rows("std of the change ÷ ω", 1.0, embedding=embedding, block=k)
        for deviation in DEVIATIONS:
            for scheme in ("post-ln", "resi-dual"):
                yield from rows("change ÷ √(2/π) ω", 1.0, scheme=scheme, deviation=deviation, block=k)
            yield from rows("change of the output ÷ √(2/π) ω", 1.2, deviation=deviation, block=k)
    for scheme in SCHEMES:
        for blocks in NUMBERS:
            for k in range(1, blocks + 1):
                value = {"post-ln": math.exp(-0.2 * (blocks - k)), "pre-ln": blocks**-0.5, "resi-dual": 1.0}[scheme]
                place = {"scheme": scheme, "blocks": blocks, "block": k, "distance": blocks - k}
                yield from rows("gradient of a block", value, **place)
        for stack in STACKS:
            yield from of_models(scheme, stack)
    for k in range(1, 25):
        yield from rows("part of the gradient", math.exp(0.2 * (k - 12)), stream="x", block=k)
        yield from rows("part of the gradient", 1.0, stream="dual", block=k)
    for m in (4, 16, 64):
        yield from rows("ln of the norm of the product", m**0.5, matrices=m, root=m**0.5)
    for scheme, last in (("pre-ln", 0.3), ("resi-dual", 0.9)):
        for stack in STACKS:
            for k in range(1, 25):
                value = last if k > 16 else 1.0
                yield from rows(TRAINED_CHANGE, value, scheme=scheme, stack=stack, block=k)
    yield from rows("error of the sum of the parts", 1e-7)
    yield from rows("difference of the streams", 0.0)


def of_models(scheme: str, stack: str) -> Iterator[ResultRow]:
    for k in range(1, 25):
        gradient = math.exp(-0.2 * (24 - k)) if scheme == "post-ln" else 1.0
        labels = {"scheme": scheme, "stack": stack, "block": k}
        yield from rows("gradient", gradient, distance=24 - k, **labels)
        kind = "self-attention" if k % 2 else "feed-forward"
        fading = k**-0.5 if scheme == "pre-ln" else 0.6
        yield from rows("change", fading, kind=kind, layer=(k + 1) // 2, **labels)
        yield from rows("share of the branch", fading, kind=kind, **labels)
    for layer in range(1, 13):
        yield from rows("gradient of a layer", 1.0, scheme=scheme, stack=stack, layer=layer)


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "R-01": ("squared norm of the sum", lambda row: 3.0),
    "R-02": ("gradient of a block", lambda row: 1.0),
    "R-03": ("ln of the norm of the product", lambda row: float(row.labels["matrices"])),
    "R-04": ("gradient of a block", lambda row: float(row.labels["block"])),
    "R-05": ("error of the sum of the parts", lambda row: 1e-3),
    "R-06": ("part of the gradient", lambda row: 2.0 if row.labels["stream"] == "x" else 1.0),
    "R-07": ("gradient", lambda row: math.exp(float(row.labels["block"]))),
    "R-08": ("gradient of a block", lambda row: float(row.labels["blocks"])),
    "R-09": ("difference of the streams", lambda row: 1e-6),
    "R-10": ("std of the change ÷ ω", lambda row: 1.1),
    "R-11": ("change", lambda row: 1.0),
    "R-12": ("change of the output", lambda row: 1.0),
    "R-13": ("change ÷ √(2/π) ω", lambda row: float(row.labels["block"])),
    "R-14": ("change of the output ÷ √(2/π) ω", lambda row: 0.9),
    "R-15": (TRAINED_CHANGE, lambda row: 1.0),
    "R-16": ("share of the branch", lambda row: float(row.labels["block"])),
}


def test_claims() -> None:
    check_claims(ResidualFig2, PAPER, BREAKING)


def test_the_figure_has_both_parts_with_the_three_methods() -> None:
    gradients, changes, _ = ResidualFig2().exhibits(PAPER)
    for exhibit in (gradients, changes):
        assert [panel.title for panel in exhibit.panels] == ["decoder", "encoder"]
        assert [curve.name for curve in exhibit.panels[0].curves] == list(SCHEMES)
