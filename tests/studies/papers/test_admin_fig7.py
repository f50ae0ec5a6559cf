"""admin-fig7: its claims on made-up results."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from lamina.studies.papers.admin_fig7 import SCHEMES, AdminFig7, share_map
from lamina.studies.papers.dependency_shares import START
from lamina.studies.papers.trained_stages import AFTER, BEFORE
from lamina.studies.result_table import ResultRow, ResultTable
from support.made_results import Change, check_claims, outcomes, rows

KINDS = ("self-attention", "feed-forward")


def as_in_the_paper() -> Iterator[ResultRow]:
    for scheme, before, after in zip(SCHEMES, (0.5, 0.2, 0.2), (0.5, 0.4, 0.45), strict=True):
        for i in range(1, 13):
            for stage, share in ((BEFORE, before), (AFTER, after)):
                labels = {"scheme": scheme, "stage": stage, "i": i}
                yield from rows("β of the own branch", share, kind=KINDS[(i - 1) % 2], **labels)
                yield from rows("variance of the stream", 1.0 + i, **labels)
    for scheme in SCHEMES:
        for i in range(1, 13):
            labels = {"scheme": scheme, "stage": START, "i": i}
            yield from rows("Σβ²", 1.0, **labels)
            yield from rows("variance of the stream", 1.0 + i, **labels)
            yield from rows("β of the own branch", 0.5, kind=KINDS[(i - 1) % 2], **labels)
            yield from rows("β² ÷ prediction", 1.0, scheme=scheme, i=i)
            if i > 2:
                yield from rows("own β ÷ largest earlier β", 1.5, **labels)
            for j in range(i + 1):
                kind = KINDS[(j - 1) % 2] if j else "embedding"
                yield from rows("β", 1 / (i + 1), j=j, kind=kind, **labels)
    yield from rows("power of i, 18 layers", -1.0)
    for i in range(1, 13):
        yield from rows("ω of a part ÷ ω", 1.0, i=i)
    for scheme in SCHEMES[:2]:
        yield from rows("gain of the own β", 0.2, scheme=scheme)
        yield from rows("largest gain of an earlier β", -0.1, scheme=scheme)


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "A-16": ("Σβ²", lambda row: 1.2),
    "A-17": ("β", lambda row: 1.0 + float(row.labels["j"])),
    "A-18": ("own β ÷ largest earlier β", lambda row: 0.5),
    "A-19": ("β of the own branch", lambda row: 0.3),
    "A-20": ("variance of the stream", lambda row: 1 / float(row.labels["i"])),
    "A-27": ("power of i, 18 layers", lambda row: 0.0),
    "A-28": ("ω of a part ÷ ω", lambda row: 1.1),
    "A-51": ("gain of the own β", lambda row: -0.1),
}


def test_claims() -> None:
    check_claims(AdminFig7, PAPER, BREAKING)


def test_maps_are_triangles_of_mean_shares() -> None:
    grid = share_map(PAPER, "post-ln", START)
    assert len(grid.values) == 12
    assert len(grid.values[0]) == 12
    assert abs(grid.values[1][1] - 1 / 3) < 1e-3
    assert isnan(grid.values[0][1])
    (figure,) = AdminFig7().exhibits(PAPER)
    assert list(figure.maps) == [f"6-layer {scheme}, {START}" for scheme in SCHEMES]


def test_without_trained_models_a_claim_about_them_is_undecided() -> None:
    start = ResultTable(row for row in PAPER if row.labels.get("stage") not in (BEFORE, AFTER))
    assert outcomes(AdminFig7, start)["A-20"] == "undecided"
