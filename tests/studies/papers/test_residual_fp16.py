"""residual-fp16: its claims on made-up results, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lamina.studies.papers.residual_fp16 import OTHER, POWERS_OF_TWO, ResidualFp16, output_and_gradients, run_dual
from lamina.studies.result_table import ResultRow, ResultTable
from support.made_results import Change, check_claims, rows


def as_in_the_paper() -> Iterator[ResultRow]:
    for scale in POWERS_OF_TWO:
        yield from rows("difference", 0.0, scale=scale)
    yield from rows("difference", 1e-6, scale=OTHER)
    yield from rows("largest |r| in fp32", 1e5)
    for scale, share in ((1.0, 0.1), (OTHER, 0.0)):
        yield from rows("overflowed share of r", share, scale=scale)
        yield from rows("largest error of the output", 5e-3, scale=scale)


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "R-37": ("difference", lambda row: 1e-3),
    "R-38": ("overflowed share of r", lambda row: 0.1),
}


def test_claims() -> None:
    check_claims(ResidualFp16, PAPER, BREAKING)


def test_outputs_and_gradients_of_all_matrices_are_compared() -> None:
    plain, scaled = output_and_gradients(1.0, 1), output_and_gradients(0.25, 1)
    assert len(plain) == 1 + 4 * 2
    assert all(torch.equal(one, other) for one, other in zip(plain, scaled, strict=True))
    assert not torch.equal(plain[0], output_and_gradients(1.0, 2)[0])


def test_the_same_branches_are_drawn_in_every_precision() -> None:
    full, dual = run_dual(1.0, 1, torch.float32)
    half, scaled = run_dual(OTHER, 1, torch.float16)
    assert dual.abs().max() > torch.finfo(torch.float16).max
    assert scaled.dtype == torch.float16
    torch.testing.assert_close(half, full, atol=2e-2, rtol=0)
