"""The check `weight-scale`."""

from __future__ import annotations

import pytest
from torch import nn

from lamina.report.labels import remedy_text
from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("scale", "severity", "word"), [(1.0, "fine", ""), (9.0, "warning", "large"), (1e-3, "warning", "small")]
)
def test_matrices_outside_the_range_of_initialisations(scale: float, severity: str, word: str) -> None:
    facts = [fact("scale", 1.0, stack="s", layer=1, module="a"), fact("scale", scale, stack="s", layer=2, module="b")]
    (found,) = findings("weight-scale", [measurement("weight-scale", facts=facts)])
    assert found.severity == severity
    if word:
        assert found.location.module == "b"
        assert f"too {word}" in found.sentence


def test_the_remedy_is_a_line_that_gives_the_matrix_its_usual_size() -> None:
    model = nn.Sequential(nn.Linear(64, 64))
    nn.init.normal_(model[0].weight, std=10 / 8)
    facts = [fact("scale", 10.0, stack="s", layer=1, module="0")]
    (found,) = findings("weight-scale", [measurement("weight-scale", facts=facts)])
    (text,) = remedy_text(found.remedies[0], own_model=False).code
    exec(text, {"model": model})
    assert model[0].weight.std().item() == pytest.approx(1 / 8, rel=0.1)
    (own,) = findings("weight-scale", [measurement("weight-scale", facts=facts)], schemes=["pre-ln"])
    assert str(remedy_text(own.remedies[0], own_model=True)) == 'model.init = "xavier"'
