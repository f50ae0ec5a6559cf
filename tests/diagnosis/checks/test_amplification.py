"""The check `amplification`: how much an update changes the output."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.results import Finding, SchemeTrait
from support.measurements import fact, findings, line, measured, measurement


def amplification(scheme: str, stack: str) -> Finding:
    found = findings("amplification", measured(scheme, 18), schemes=[scheme])
    return next(each for each in found if each.location == Location(stack=stack))


def test_deep_post_ln_amplifies_and_deep_pre_ln_does_not() -> None:
    post = amplification("post-ln", "decoder")
    assert post.severity == "failure"
    assert SchemeTrait(avoids="amplification", schemes=("admin", "deep-norm", "pre-ln")) in post.remedies
    assert amplification("pre-ln", "decoder").severity == "fine"


def test_a_stack_with_several_streams_is_not_judged() -> None:
    for stack in ("encoder", "decoder"):
        found = amplification("resi-dual", stack)
        assert found.severity == "not measured", "Liu's theorem is about a single stream"
        assert "a single residual stream" in found.sentence


def test_the_order_comes_from_models_of_several_depths() -> None:
    shares = measurement(
        "layer-dependency", line(*[0.7] * 24, stack="encoder"), facts=[fact("Σβᵢᵢ²", 24 * 0.49, stack="encoder")]
    )
    for linear, logarithmic, order in ((0.99, 0.8, "of order n "), (0.8, 0.97, "of order ln n ")):
        fits = [fact("R² of n", linear, "noise"), fact("R² of ln n", logarithmic, "noise")]
        (found,) = findings("amplification", [shares, measurement("output-change", facts=fits)])
        assert order in found.sentence
        assert found.value == pytest.approx(24 * 0.49 / sum(1 / i for i in range(1, 25)))
    (found,) = findings("amplification", [shares])
    assert "of order" not in found.sentence


def test_a_sum_that_is_not_a_number_is_not_judged() -> None:
    unknown = measurement(
        "layer-dependency", line(0.7, stack="encoder"), facts=[fact("Σβᵢᵢ²", float("nan"), stack="encoder")]
    )
    (found,) = findings("amplification", [unknown])
    assert found.severity == "not measured"


@pytest.mark.parametrize(("warmup", "severity"), [(None, "failure"), (100, "failure"), (8000, "warning")])
def test_a_long_warm_up_makes_a_failure_a_warning(warmup: int | None, severity: str) -> None:
    found = findings("amplification", measured("post-ln", 18), schemes=["post-ln"], learning_rate=1e-3, warmup=warmup)
    assert max(each.severity == severity for each in found)
    assert any(each.severity == "failure" for each in found) == (severity == "failure")
