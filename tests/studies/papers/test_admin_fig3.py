"""admin-fig3: its claims on made-up results, and the variance of feed-forward branches."""

from __future__ import annotations

import math

import pytest

from lamina.studies.papers.admin_fig3 import SCHEMES, AdminFig3, feed_forward_variance_ratio, least_share
from lamina.studies.papers.relative_gradients import KINDS
from lamina.studies.result_table import ResultTable
from support.made_results import Change, check_claims, rows

SLOPES = {("post-ln", "decoder"): 0.1, ("admin", "decoder"): 0.05}
PAPER = ResultTable(
    [
        *(
            row
            for scheme in SCHEMES
            for stack, kinds in (("encoder", (KINDS[0], KINDS[2])), ("decoder", KINDS))
            for at in range(1, 18 * len(kinds) + 1)
            for row in rows(
                "gradient",
                math.exp(SLOPES.get((scheme, stack), -0.01) * at),
                scheme=scheme,
                stack=stack,
                sublayer=at,
                layer=(at - 1) // len(kinds) + 1,
                kind=kinds[(at - 1) % len(kinds)],
            )
        ),
        *(
            row
            for kind, share in zip(KINDS, (1.0, 0.8, 1.01), strict=True)
            for row in rows("share left", share, scheme="post-ln", stack="decoder", kind=kind)
        ),
        *rows("Var[f] ÷ formula", 1.0),
    ]
)


def growing(by: float) -> Change:
    return lambda row: math.exp(by * float(row.labels["sublayer"]))


BREAKING: dict[str, tuple[str, Change]] = {
    "A-06": ("gradient", growing(0.1)),
    "A-07": ("gradient", growing(0.1)),
    "A-08": ("gradient", growing(-0.01)),
    "A-09": ("share left", lambda row: 0.99 + 1e-4 * (row.seed or 0)),
    "A-10": ("Var[f] ÷ formula", lambda row: 1.2),
    "A-33": ("gradient", growing(-0.01)),
}


def test_claims() -> None:
    check_claims(AdminFig3, PAPER, BREAKING, untrained=["A-33"])


def test_the_figure_has_both_parts_of_the_papers() -> None:
    stacks, kinds = (exhibit.panels[0] for exhibit in AdminFig3().exhibits(PAPER))
    assert len(stacks.curves) == 6
    assert [curve.name for curve in kinds.curves] == list(KINDS)
    assert kinds.curves[0].series.x == tuple(range(1, 19))


def test_the_least_share_is_over_all_pairs() -> None:
    assert least_share([4.0, 2.0, 1.0]) == 2.0
    assert least_share([1.0, 2.0, 1.0]) == 0.5


def test_the_variance_formula() -> None:
    assert feed_forward_variance_ratio(1, 256, 256) == pytest.approx(1, abs=0.15)
