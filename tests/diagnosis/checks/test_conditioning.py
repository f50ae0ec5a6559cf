"""The check `conditioning`: κ of Adam's update, for 1,024 weights as in the paper."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location, Measurement
from lamina.diagnosis.results import Finding, Setting
from support.measurements import advice, fact, findings, line, measurement


def adam(kappa: tuple[float, ...], without_gradient: float, learning_rate: float, epsilon: float = 1e-6) -> Measurement:
    return measurement(
        "adam-conditioning",
        line(*kappa, stack="decoder"),
        line(*[without_gradient] * len(kappa), stack="decoder", role="predicted", quantity="without gradient"),
        facts=[fact("learning rate", learning_rate), fact("ε", epsilon)],
    )


def judged(measured: Measurement) -> Finding:
    (found,) = findings("conditioning", [measured])
    return found


@pytest.mark.parametrize(
    ("rate", "kappa", "severity"), [(1e-4, 3200, "failure"), (1e-4, 500, "warning"), (1e-4 / 4000, 0.8, "fine")]
)
def test_conditioning_is_judged_as_the_paper_has_it(rate: float, kappa: float, severity: str) -> None:
    """d = 1024, ε = 1e-6: without gradient κ is 3200 at 1e-4, and 0.8 in a warm-up of 4000 steps."""
    still = 32 * rate / 1e-6
    found = judged(adam((kappa / 2, kappa), still, rate))
    assert found.severity == severity
    assert found.value == pytest.approx(kappa)
    assert found.location == Location(stack="decoder", layer=2)
    warm_up = [each.value for each in found.remedies if isinstance(each, Setting)]
    assert warm_up == ([] if severity == "fine" else [pytest.approx(kappa, abs=1)])
    assert ("schedule.warmup_steps" in advice(found)) == (severity != "fine")
    four = judged(adam((kappa, 2 * kappa), 2 * still, rate))
    assert four.value == pytest.approx(kappa), "four times the weights: twice the κ, the same finding"


def test_without_the_learning_rate_or_epsilon_nothing_is_judged() -> None:
    known = adam((10.0, 20.0), 3200.0, 1e-4)
    assert judged(known.model_copy(update={"facts": ()})).severity == "not measured"
    assert judged(adam((10.0, 20.0), float("inf"), 1e-4, epsilon=0.0)).severity == "not measured"


def test_numbers_that_are_not_finite() -> None:
    nan, inf = float("nan"), float("inf")
    assert judged(adam((nan, 3200.0), 3200.0, 1e-4)).location.layer == 2
    assert judged(adam((nan, nan), 3200.0, 1e-4)).severity == "not measured"
    assert judged(adam((inf, 1.0), 3200.0, 1e-4)).severity == "failure"


@pytest.mark.parametrize(("share", "severity"), [(0.002, "fine"), (0.2, "warning"), (1.0, "failure")])
def test_a_smaller_epsilon_alone_is_no_fault(share: float, severity: str) -> None:
    """At torch's ε = 1e-8 κ is in the thousands where gradients are 500 times ε, and training is healthy."""
    still = 32 * 1e-4 / 1e-8
    assert judged(adam((share * still, 0.0), still, 1e-4, epsilon=1e-8)).severity == severity
