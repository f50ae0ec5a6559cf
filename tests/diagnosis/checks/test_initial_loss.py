"""The check `initial-loss`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.results import Finding
from support.measurements import fact, findings, measurement


def judged(loss: float, *, initialised: bool = True, probabilities: bool = False) -> Finding:
    values = {"loss": loss, "ln V": 5.0, "σ of the logits": 3.0, "are probabilities": float(probabilities)}
    facts = [fact(name, value, module="head") for name, value in values.items()]
    facts.append(fact("initialised", float(initialised), module="head"))
    (found,) = findings("initial-loss", [measurement("initial-loss", facts=facts)])
    return found


@pytest.mark.parametrize(
    ("loss", "severity"),
    [(5.2, "fine"), (3.0, "fine"), (7.0, "warning"), (12.0, "failure"), (float("inf"), "not measured")],
)
def test_a_loss_far_above_a_guess(loss: float, severity: str) -> None:
    assert judged(loss).severity == severity
    assert ("too large" in judged(loss).sentence) == (severity in ("warning", "failure"))


def test_a_trained_model_is_not_judged() -> None:
    assert judged(12.0, initialised=False).severity == "not measured"


def test_a_softmax_that_is_applied_twice() -> None:
    found = judged(5.0, probabilities=True)
    assert found.severity == "failure"
    assert "applied twice" in found.sentence
