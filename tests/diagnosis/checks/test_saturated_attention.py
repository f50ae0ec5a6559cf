"""The check `saturated-attention`."""

from __future__ import annotations

import pytest

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
