"""xiong-fig2: claims hold on made-up results as in the paper, and fail on results that contradict them."""

from __future__ import annotations

import pytest

from lamina.studies.papers.xiong_fig2 import XiongFig2
from support.made_runs import Labels, Values, ValuesOf, check_claim, made_results


def as_in_the_paper(run: Labels) -> Values:
    if run["optimiser"] == "sgd":
        bleu = 5.0 if run["warmup"] == 4000 else 0.1
    else:
        bleu = {1: 8.0, 500: 31.0 if run["rate"] == 5e-4 else 3.0, 4000: 34.0}[int(run["warmup"])]
    return {"trained": 1.0, "bleu": bleu, "validation loss": 10 - bleu / 5, "validation loss by step@step=40": 5.0}


def without(run: Labels) -> Values:
    """A warm-up makes no difference, and SGD is as good."""
    loss = 4.0 + 0.01 * (run["warmup"] == 4000)
    return {"trained": 1.0, "bleu": 30.0 - 1e-2 * float(run["warmup"]) / 4000, "validation loss": loss}


def rates(run: Labels) -> Values:
    """A short warm-up is better."""
    return {**as_in_the_paper(run), "bleu": 35.0 if run["warmup"] == 500 else 30.0}


def sgd(run: Labels) -> Values:
    return {**as_in_the_paper(run), "bleu": 36.0 if run["optimiser"] == "sgd" else 30.0}


BREAKING: dict[str, ValuesOf] = {"X-01": without, "X-02": without, "X-03": rates, "X-04": without, "X-05": sgd}


@pytest.mark.parametrize("claim", [each.id for each in XiongFig2.claims])
def test_claims(claim: str) -> None:
    check_claim(XiongFig2(), claim, as_in_the_paper, BREAKING[claim])


def test_the_figure_has_a_panel_for_each_optimiser() -> None:
    (figure,) = XiongFig2().exhibits(made_results(XiongFig2(), as_in_the_paper))
    assert [len(panel.curves) for panel in figure.panels] == [6, 4]
    assert len(figure.tables[0].rows) == 10
