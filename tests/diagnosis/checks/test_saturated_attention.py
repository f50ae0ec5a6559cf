"""The check `saturated-attention`."""

from __future__ import annotations

import pytest
import torch

from lamina.report.labels import remedy_text
from support.measurements import fact, findings, measurement


@pytest.mark.parametrize(
    ("entropy", "logit", "severity"), [(0.95, 1.0, "fine"), (0.2, 40.0, "warning"), (0.2, 2.0, "fine")]
)
def test_a_low_entropy_by_large_logits(entropy: float, logit: float, severity: str) -> None:
    places = [{"stack": "stack", "layer": at, "module": f"h.{at - 1}.attn"} for at in (1, 2)]
    entropies = measurement(
        "attention-entropy", facts=[fact("entropy", 1.0, **places[0]), fact("entropy", entropy, **places[1])]
    )
    logits = measurement("attention-logits", facts=[fact("largest logit", logit, **place) for place in places])
    (found,) = findings("saturated-attention", [entropies, logits])
    assert (found.severity, found.value, found.location.module) == (severity, entropy, "h.1.attn")
    assert ("saturated, as in 1 of 2" in found.sentence) == (severity == "warning")


def test_the_remedies_are_lines_of_an_attention_module() -> None:
    place = {"stack": "stack", "layer": 1, "module": "h.0.attn"}
    measured = [
        measurement("attention-entropy", facts=[fact("entropy", 0.1, **place)]),
        measurement("attention-logits", facts=[fact("largest logit", 50.0, **place)]),
    ]
    (found,) = findings("saturated-attention", measured)
    scaled, normalised = (remedy_text(each, own_model=False) for each in found.remedies)
    names = {"torch": torch, "query": 100 * torch.randn(2, 4, 6, 16), "key": 100 * torch.randn(2, 4, 6, 16)}
    before = (names["query"] @ names["key"].mT).abs().max()
    exec(scaled.code[0], names)
    assert torch.allclose(names["scores"].abs().max(), before / 4)
    exec(normalised.code[0], names)
    assert (names["query"] @ names["key"].mT).abs().max() <= 16.001
    assert "QK-norm" in str(normalised)
    (own,) = findings("saturated-attention", measured, schemes=["pre-ln"])
    assert str(remedy_text(own.remedies[0], own_model=True)) == 'model.init = "xavier"'
