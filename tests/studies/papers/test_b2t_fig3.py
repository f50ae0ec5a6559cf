"""b2t-fig3: its claims on made-up results, and the Jacobians of one sub-layer."""

from __future__ import annotations

import math

import pytest

from lamina.studies.papers.b2t_fig3 import SCHEMES, B2TFig3, jacobian_difference
from lamina.studies.result_table import ResultTable
from support.made_results import Change, check_claims, rows

SLOPES = {"post-ln": 0.2, "pre-ln": -0.05, "b2t": 0.05}
PAPER = ResultTable(
    [
        *(row for scheme in SCHEMES[:2] for row in rows("Jacobian difference", 1e-16, scheme=scheme)),
        *(
            row
            for scheme, slope in SLOPES.items()
            for stack in ("encoder", "decoder")
            for layer in range(1, 19)
            for row in rows("gradient", math.exp(slope * layer), scheme=scheme, stack=stack, layer=layer)
        ),
    ]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "B-02": ("Jacobian difference", lambda row: 1e-3),
    "B-03": ("Jacobian difference", lambda row: 1e-3),
    "B-04": ("gradient", lambda row: 1.0 + 1e-3 * float(row.labels["layer"])),
    "B-05": ("gradient", lambda row: math.exp(float(row.labels["layer"]))),
    "B-06": ("gradient", lambda row: math.exp(0.1 * float(row.labels["layer"]))),
    "B-07": ("gradient", lambda row: math.exp(-float(row.labels["layer"]))),
}


def test_claims() -> None:
    check_claims(B2TFig3, PAPER, BREAKING)


def test_the_figure_has_the_panels_of_the_paper() -> None:
    (figure,) = B2TFig3().exhibits(PAPER)
    assert [panel.title for panel in figure.panels] == ["a: encoder", "b: decoder"]
    assert [curve.name for curve in figure.panels[0].curves] == list(SCHEMES)


@pytest.mark.parametrize("scheme", ["post-ln", "pre-ln"])
def test_the_products_are_the_jacobians(scheme: str) -> None:
    assert 0 < jacobian_difference(scheme, 1) < 1e-12


def test_another_scheme_has_another_jacobian() -> None:
    """The formula of pre-LN does not hold for a sub-layer whose stream is normalised afterwards."""
    assert jacobian_difference("keel", 1) > 0.1
