"""admin-fig8: its claim on made-up results, and the shares of a real encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.studies.papers.admin_fig8 import TRAINED, AdminFig8, feed_forward_shares
from lamina.studies.papers.dependency_shares import START
from lamina.studies.papers.initial_models import initial_subject
from lamina.studies.papers.trained_stages import AFTER
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext
from support.made_results import Change, check_claims, rows

START_SHARES = {"post-ln": 0.6, "pre-ln": 0.2, "admin": 0.3}
END_SHARES = {"pre-ln": 0.3, "admin": 0.5}
PAPER = ResultTable(
    row
    for stage, shares in ((START, START_SHARES), (AFTER, END_SHARES))
    for scheme, share in shares.items()
    for i in range(1, 19)
    for row in [
        *rows("β of the own branch", share, scheme=scheme, stage=stage, i=i),
        *(each for j in range(1, i + 1) for each in rows("β", share, scheme=scheme, stage=stage, i=i, j=j)),
    ]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "A-29": ("β of the own branch", lambda row: 0.9 if row.labels["scheme"] == "pre-ln" else 0.3)
}


def test_claims() -> None:
    check_claims(AdminFig8, PAPER, BREAKING)


def test_the_figure_has_a_map_for_every_model() -> None:
    (figure,) = AdminFig8().exhibits(PAPER)
    assert len(figure.maps) == 3 + len(TRAINED)
    assert len(next(iter(figure.maps.values())).values) == 18


def test_shares_are_those_of_feed_forward_branches(tmp_path: Path) -> None:
    subject = initial_subject(StudyContext(tmp_path, "micro"), "pre-ln", (3, 1))
    found = ResultTable(feed_forward_shares(subject.build(1), subject.passes[0]))
    own = [row.value for row in found.where("β of the own branch")]
    assert own == pytest.approx([found.where("β", i=i, j=i)[0].value for i in (1, 2, 3)])
    assert len(found.where("β")) == 6
