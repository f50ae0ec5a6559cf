"""xiong-fig3: every claim holds on results as the paper has them, and fails on results that contradict it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from lamina.studies.papers.xiong_fig3 import AFTER_WARMUP, START, TRAINED_GRADIENT, XiongFig3
from lamina.studies.papers.xiong_lemmas import TAIL_BOUNDS, TAIL_SIZES
from lamina.studies.result_table import ResultRow, ResultTable
from support.made_results import Change, check_claims, outcomes, rows

LAYERS, DEPTHS = range(1, 7), (6, 8, 10)


def as_in_the_paper() -> Iterator[ResultRow]:
    yield from rows("squared norm after ReLU", 0.5)
    for layer in LAYERS:
        for kind, size in (("feed-forward", 1.5), ("attention", 1.3)):
            yield from rows("squared norm before the norm", size, kind=kind, layer=layer)
        yield from rows("squared norm of the stream", 1 + layer, layer=layer)
        yield from rows("norm Jacobian", layer**-0.5, layer=layer)
        yield from rows("theory gradient", 1.2**layer, layer=layer)
    for seed in (1, 2, 3):
        for quantity in ("Jacobian norm ÷ (√d / ‖x − mean‖)", "squared norm after the norm"):
            yield ResultRow(quantity=quantity, value=1.0, seed=seed)
    for scheme, growth, power in (("post-ln", 0.2, 0.0), ("pre-ln", 0.01, -0.5)):
        yield from rows("share beyond 10 %", 0.02, scheme=scheme)
        for depth in DEPTHS:
            yield from rows("last gradient", 2 * depth**power, scheme=scheme, depth=depth)
        for stack, matrix, layer in product(("encoder", "decoder"), ("inner", "outer"), LAYERS):
            place = {"scheme": scheme, "stack": stack, "matrix": matrix, "layer": layer}
            yield from rows("gradient", math.exp(growth * layer), stage=START, **place)
    for width in (64, 128, 256):
        yield from rows("last gradient ÷ d √ln d", 1 / width, width=width)
    for stack, matrix, layer in product(("encoder", "decoder"), ("inner", "outer"), LAYERS):
        place = {"scheme": "post-ln", "stack": stack, "matrix": matrix, "layer": layer}
        yield from rows(TRAINED_GRADIENT, 1.0, stage=START, **place)
        yield from rows(TRAINED_GRADIENT, 0.1, stage=AFTER_WARMUP, **place)
    yield from rows("squared norm of the branch", 0.5)
    yield from rows("shrinkage at the norm", 0.816)
    yield from rows("share below 2 ln(100 d)", 0.998)
    for size in TAIL_SIZES:
        for bound in TAIL_BOUNDS:
            yield from rows("tail probability", 0.9 * math.exp(-size * bound**2 / 8), size=size, bound=bound)


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "S-01": ("squared norm after the norm", lambda row: 1.001),
    "S-02": ("squared norm before the norm", lambda row: 2.5),
    "S-03": ("squared norm of the branch", lambda row: 0.6),
    "S-04": ("shrinkage at the norm", lambda row: 0.7),
    "S-05": ("theory gradient", lambda row: 1.0 + 0.001 * float(row.labels["layer"])),
    "S-06": ("norm Jacobian", lambda row: 1.0 + 0.001 * float(row.labels["layer"])),
    "S-07": ("tail probability", lambda row: 0.999),
    "S-08": ("share below 2 ln(100 d)", lambda row: 0.95),
    "X-06": ("squared norm after ReLU", lambda row: 0.55),
    "X-07": ("squared norm before the norm", lambda row: 1.8),
    "X-08": ("squared norm of the stream", lambda row: 1.0),
    "X-09": ("Jacobian norm ÷ (√d / ‖x − mean‖)", lambda row: 0.9),
    "X-10": ("share beyond 10 %", lambda row: 0.3),
    "X-11": ("last gradient", lambda row: 1 / float(row.labels["depth"])),
    "X-12": ("last gradient", lambda row: 1.0),
    "X-13": ("last gradient", lambda row: 0.1 if row.labels["scheme"] == "post-ln" else 1.0),
    "X-14": ("last gradient ÷ d √ln d", lambda row: float(row.labels["width"])),
    "X-15": ("gradient", lambda row: math.exp(-0.2 * float(row.labels["layer"]))),
    "X-16": ("gradient", lambda row: math.exp(float(row.labels["layer"]))),
    "X-17": (TRAINED_GRADIENT, lambda row: 1.0),
}
"""For each claim a quantity, and values of it that contradict the claim."""


def test_each_claim_holds_on_results_as_in_the_paper_and_fails_on_others() -> None:
    check_claims(XiongFig3, PAPER, BREAKING)


def test_without_training_the_claim_about_it_is_undecided() -> None:
    start = ResultTable(row for row in PAPER if row.labels.get("stage") != AFTER_WARMUP)
    assert outcomes(XiongFig3, start)["X-17"] == "undecided"
    by_layer, _ = XiongFig3().exhibits(start)
    assert [curve.name for curve in by_layer.panels[0].curves] == [
        "pre-ln (initialisation)",
        "post-ln (initialisation)",
    ]


def test_the_figure_has_the_panels_of_the_paper() -> None:
    by_layer, by_depth = XiongFig3().exhibits(PAPER)
    assert [panel.title for panel in by_layer.panels] == [
        f"{matrix}, {stack}" for matrix in ("a: W¹", "b: W²") for stack in ("encoder", "decoder")
    ]
    assert [panel.title for panel in by_depth.panels] == ["c: pre-ln", "d: post-ln"]
    assert by_depth.panels[0].curves[0].series.x == (6.0, 8.0, 10.0)
