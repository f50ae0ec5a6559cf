"""admin-fig4: its claims on made-up results, and the step of Adam."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from lamina.studies.papers.admin_fig4 import AdminFig4, adam_step, relative_signs
from lamina.studies.papers.trained_stages import AFTER, BEFORE
from lamina.studies.result_table import ResultRow, ResultTable
from support.made_results import Change, check_claims, rows

NUMBERS = (6, 12, 24, 36, 72, 120, 200)


def as_in_the_paper() -> Iterator[ResultRow]:
    for scheme in ("post-ln", "pre-ln", "admin"):
        for n in NUMBERS:
            labels = {"scheme": scheme, "sublayers": n}
            total = 0.5 * n if scheme == "post-ln" else math.log(n)
            yield from rows("Σβ²", total, **labels)
            yield from rows("noise", 10 * total, **labels)
            yield from rows("Adam", 1000.0 * n if scheme == "post-ln" else n, **labels)
        for stage, moved in ((BEFORE, 2.0), (AFTER, 1.0)):
            yield from rows("change by a relative move", moved, scheme=scheme, stage=stage)


def swapped(row: ResultRow) -> float:
    n = float(row.labels["sublayers"])
    return math.log(n) if row.labels["scheme"] == "post-ln" else n**2 / 100


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "A-21": ("noise", swapped),
    "A-22": ("noise", swapped),
    "A-23": ("noise", swapped),
    "A-24": ("noise", lambda row: 1.0 if row.labels["scheme"] == "pre-ln" else 9.0),
    "A-25": ("Adam", lambda row: 1.0),
    "A-26": ("change by a relative move", lambda row: 1.0 if row.labels["stage"] == BEFORE else 2.0),
}


def test_claims() -> None:
    check_claims(AdminFig4, PAPER, BREAKING)


def test_the_figure_has_three_panels() -> None:
    left, middle, right, _ = AdminFig4().exhibits(PAPER)
    assert [curve.name for curve in middle.panels[0].curves] == ["pre-ln", "admin"]
    assert (left.axes.log_x, middle.axes.log_x, right.axes.log_y) == (False, True, True)  # type: ignore[union-attr]
    assert "post-ln: R² of n 1.00" in left.caption


def test_the_first_step_of_adam_moves_every_weight_by_the_learning_rate() -> None:
    model = nn.Linear(3, 3)
    before, bias = model.weight.clone(), model.bias.clone()
    with torch.no_grad():
        adam_step(lambda module: module(torch.ones(2, 3)).square().sum(), 1e-3)(model, [model.weight])
    assert (model.weight - before).abs().flatten().tolist() == pytest.approx([1e-3] * 9, rel=1e-2)
    assert torch.equal(model.bias, bias)


def test_a_relative_move_has_the_same_share_of_every_matrix() -> None:
    weights = [nn.Parameter(torch.full((2, 2), size)) for size in (1.0, 100.0)]
    before = [weight.clone() for weight in weights]
    with torch.no_grad():
        relative_signs(1)(nn.Identity(), weights)
    for weight, old, size in zip(weights, before, (1.0, 100.0), strict=True):
        assert (weight - old).abs().flatten().tolist() == pytest.approx([1e-3 * size] * 4, rel=1e-2)
