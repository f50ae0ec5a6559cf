"""b2t-table9: the claims about the forward pass on made-up results."""

from __future__ import annotations

import math

from lamina.studies.papers.b2t_table9 import B2TTable9
from lamina.studies.papers.no_norm_streams import PAPER_WEIGHTS, WITHOUT_WEIGHTS, paper_alpha
from lamina.studies.result_table import ResultTable, row
from support.made_results import Change, check_claims, rows
from support.made_runs import made_results, scored

CONDITIONS = [(weights, 18, 0.5) for weights in WITHOUT_WEIGHTS]
CONDITIONS += [(PAPER_WEIGHTS, depth, -0.02) for depth in (6, 18, 60)]
PAPER = ResultTable(
    [
        *(row("α", paper_alpha(number), layers=number) for number in range(1, 61)),
        *(
            each
            for weights, depth, slope in CONDITIONS
            for layer in range(depth + 1)
            for each in rows("standard deviation", math.exp(slope * layer), weights=weights, depth=depth, layer=layer)
        ),
        *made_results(B2TTable9(), lambda run: scored(26.3 if run["scheme"] == "b2t-no-norm" else 26.5)),
    ]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "B-34": ("standard deviation", lambda row: math.exp(0.01 * float(row.labels["layer"]))),
    "B-35": ("standard deviation", lambda row: math.exp(0.5 * float(row.labels["layer"]))),
    "B-36": ("α", lambda row: float(row.labels["layers"])),
    "B-37": ("test bleu", lambda row: 27.0 if row.labels["scheme"] == "b2t-no-norm" else 26.5),
}


def test_claims() -> None:
    check_claims(B2TTable9, PAPER, BREAKING)


def test_the_figure_has_a_curve_for_every_condition() -> None:
    streams, alphas, _ = B2TTable9().exhibits(PAPER)
    assert len(streams.panels[0].curves) == 5
    assert len(alphas.panels[0].curves[0].series.x) == 60
