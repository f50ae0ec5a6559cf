"""residual-fig3: its claims on made-up results, and κ̂ against autograd."""

from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measures.adam_conditioning import AdamRule
from lamina.studies.papers.residual_fig3 import DEVIATIONS, DIM, SPREAD, STEPS, ResidualFig3, condition_numbers
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims, rows
from support.made_runs import made_results, scored

PAPER = ResultTable(
    [
        *(
            each
            for step in range(1, STEPS + 1)
            for at, deviation in enumerate(DEVIATIONS)
            for each in rows("κ", 3200 / step**0.7 * (1 - 0.01 * at), [1, 2, 3], deviation=deviation, step=step)
        ),
        row("κ with warm-up", 0.8),
        *made_results(ResidualFig3(), lambda run: {**scored(30.0), SPREAD: 100.0 if run["ε"] == 1e-3 else 3.0}),
    ]
)
PAPER = ResultTable(
    each.model_copy(update={"value": 3200.0})
    if (each.labels.get("deviation"), each.labels.get("step")) == (0.0, 1)
    else each
    for each in PAPER
)
BREAKING: dict[str, tuple[str, Change]] = {
    "R-17": ("κ", lambda row: 1000.0),
    "R-18": ("κ", lambda row: 100.0),
    "R-19": ("κ", lambda row: 1e10 * float(row.labels["deviation"])),
    "R-20": ("κ", lambda row: 100.0 if row.labels["deviation"] else 3200.0),
    "R-21": ("κ with warm-up", lambda row: 3200.0),
    "R-22": (SPREAD, lambda row: 1.0 if row.labels["ε"] == 1e-3 else 3.0),
}


def test_claims() -> None:
    check_claims(ResidualFig3, PAPER, BREAKING)


def test_the_figure_has_both_panels() -> None:
    left, right, _ = ResidualFig3().exhibits(PAPER)
    assert left.panels[0].curves[0].series.x == tuple(range(1, STEPS + 1))
    assert [curve.name for curve in right.panels[0].curves] == ["t = 1", "t = 5", "t = 10", "t = 15", "t = 20"]


def test_the_condition_number_is_the_norm_of_the_jacobian() -> None:
    rule, generator = AdamRule(), torch.Generator().manual_seed(1)
    first, second = torch.zeros(2, DIM, dtype=torch.float64)
    found = list(condition_numbers(1e-7, rule, seed=1))
    for step in (1, 2):
        gradient = (1e-7 * torch.randn(DIM, dtype=torch.float64, generator=generator)).requires_grad_()
        m = rule.betas[0] * first + (1 - rule.betas[0]) * gradient
        v = rule.betas[1] * second + (1 - rule.betas[1]) * gradient**2
        corrected, root = m / (1 - rule.betas[0] ** step), (v / (1 - rule.betas[1] ** step)).sqrt()
        (slopes,) = torch.autograd.grad((rule.learning_rate * corrected / (root + rule.eps)).sum(), gradient)
        assert found[step - 1] == pytest.approx(slopes.norm().item())
        first, second = m.detach(), v.detach()
