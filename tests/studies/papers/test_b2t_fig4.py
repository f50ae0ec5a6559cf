"""b2t-fig4: its claim on made-up results, and the places inside a layer."""

from __future__ import annotations

from pathlib import Path

from lamina.studies.papers.b2t_fig4 import B2TFig4, gradients_inside
from lamina.studies.papers.initial_models import initial_subject, record_stacks
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext
from support.made_results import Change, changed, check_claims, outcomes, rows

PAPER = ResultTable(
    row
    for layer in (1, 9, 18)
    for place in range(1, 7)
    for row in rows("gradient", 0.8 ** -(place // 2), scheme="post-ln", layer=layer, place=place)
)
BREAKING: dict[str, tuple[str, Change]] = {"B-08": ("gradient", lambda row: 7.0 - float(row.labels["place"]))}


def test_claims() -> None:
    check_claims(B2TFig4, PAPER, BREAKING)


def test_a_loss_at_a_residual_sum_contradicts_the_claim() -> None:
    lost = changed(PAPER, "gradient", lambda row: 0.01, layer=9, place=2)
    assert outcomes(B2TFig4, lost)["B-08"] == "does not hold"


def test_places_are_those_of_the_layer_from_its_first_sum_to_its_output(tmp_path: Path) -> None:
    decoder = record_stacks(initial_subject(StudyContext(tmp_path, "micro"), "post-ln", (2, 2)), seed=1)["decoder"]
    inside = gradients_inside(decoder, 2)
    assert len(inside) == 6
    assert inside[-1] == decoder.sublayers[-1].after[0].gradient_norm
    assert inside[1] == decoder.sublayers[3].after[0].gradient_norm
    assert inside[0] == decoder.norms[3].input.gradient_norm
