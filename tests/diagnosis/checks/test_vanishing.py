"""The check `vanishing`: the layer, the norms, and the remedies that it names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import residual
from lamina.diagnosis.checks.vanishing import Vanishing
from lamina.diagnosis.measurement import Location, Series
from lamina.diagnosis.options import Thresholds
from lamina.diagnosis.results import Finding, SchemeTrait
from lamina.formatting import short
from support.measurements import advice, fact, findings, line, measured, measurement


def vanishing(scheme: str, depth: int, stack: str, kind: str = "encoder-decoder") -> Finding:
    found = findings("vanishing", measured(scheme, depth, kind), schemes=[scheme])
    return next(each for each in found if each.location.stack == stack)


def gradients(*y: float, stack: str = "stack") -> Series:
    return line(*y, stack=stack, matrix="outer")


def test_a_deep_post_ln_decoder_vanishes_at_the_norms_after_cross_attention() -> None:
    worst = vanishing("post-ln", 18, "decoder")
    assert worst.severity == "failure"
    assert worst.value is not None
    assert worst.value < worst.threshold == Vanishing.Thresholds().failure
    assert worst.location.layer is not None
    assert worst.location.layer <= 6, "one of the lowest layers"
    assert "at the norms after cross-attention" in worst.sentence
    assert f"{short(worst.value)} of layer 18's" in worst.sentence
    assert SchemeTrait(avoids="vanishing", schemes=("b2t", "pre-ln", "resi-dual")) in worst.remedies
    assert "post-ln" not in advice(worst)


def test_a_stack_without_cross_attention_is_not_said_to_vanish() -> None:
    """Although Xiong's supplement and ResiDual derive a decay from the norms alone."""
    assert vanishing("post-ln", 18, "stack", kind="decoder").severity != "failure"
    encoder = vanishing("post-ln", 18, "encoder")
    assert encoder.severity != "failure"
    assert "cross-attention" not in encoder.sentence


@pytest.mark.parametrize("scheme", ["pre-ln", "b2t", "resi-dual", "sandwich-ln"])
def test_schemes_that_keep_the_gradient_are_not_said_to_lose_it(scheme: str) -> None:
    for found in findings("vanishing", measured(scheme, 18), schemes=[scheme]):
        assert found.severity != "failure", found.sentence
        # B2T reduces the decay and ResiDual bounds it from below, but neither removes it.
        assert found.severity == "fine" or scheme in ("b2t", "resi-dual"), found.sentence


def test_norms_are_named_only_where_they_lose_the_gradient() -> None:
    lost = measurement("gradient-by-layer", gradients(1e-4, 0.1, 1.0, stack="decoder"))
    at_sublayers = {"stack": "decoder", "sublayer_kind": "cross-attention"}
    steps = measurement("gradient-along-stream", facts=[fact("below/above", 0.5, **at_sublayers)])
    (bare,) = findings("vanishing", [lost])
    assert bare.sentence.endswith("the gradient vanishes towards the first layer")
    start = "the gradient norm of decoder layer 1 is 1·10⁻⁴ of layer 3's, below the threshold of 0.1: "
    assert bare.sentence.startswith(start)
    (at,) = findings("vanishing", [lost, steps])
    assert at.sentence.endswith("the gradient vanishes at cross-attention, each of which leaves 0.5 of it")
    norms = measurement("gradient-at-norms", facts=[fact("input/output", 0.6, **at_sublayers)])
    (after,) = findings("vanishing", [lost, steps, norms])
    assert "at the norms after cross-attention" in after.sentence
    even = measurement(
        "gradient-along-stream", facts=[fact("below/above", 0.98, stack="decoder", sublayer_kind="feed-forward")]
    )
    (nowhere,) = findings("vanishing", [lost, even])
    assert "at no kind of sub-layer in particular" in nowhere.sentence
    elsewhere = measurement(
        "gradient-along-stream", facts=[fact("below/above", 0.5, stack="encoder", sublayer_kind="self-attention")]
    )
    assert findings("vanishing", [lost, elsewhere]) == [bare], "another stack is no cause"


def test_the_weakest_layer_is_named_wherever_it_is() -> None:
    kinds = (line(1.0, 0.003, 1.0, 1.0, stack="stack", matrix="query"), gradients(1.0, 0.004, 1.0, 1.0))
    (found,) = findings("vanishing", [measurement("gradient-by-layer", *kinds)])
    assert found.location == Location(stack="stack", layer=2)
    assert found.value == pytest.approx((0.003**2 + 0.004**2) ** 0.5 / 2**0.5)


def test_a_stack_without_any_gradient_may_be_closed_or_cut_off() -> None:
    dead = [measurement("gradient-by-layer", gradients(0.0, 0.0))]
    (foreign,) = findings("vanishing", dead)
    assert (foreign.severity, foreign.location) == ("warning", Location(stack="stack"))
    assert "no gradient reaches the layers of the stack" in foreign.sentence
    assert "a stack that still has no gradient is disconnected" in advice(foreign)
    (own,) = findings("vanishing", dead, schemes=["re-zero"])
    assert (own.severity, advice(own)) == ("fine", "")


def test_only_what_the_last_layer_has_is_compared() -> None:
    """Small adapters in the lower layers, and a last layer that is trained as a whole."""
    adapters = line(0.1, 0.1, stack="stack", matrix="adapter")
    last = line(9.0, first=3, stack="stack", matrix="outer")
    (nothing,) = findings("vanishing", [measurement("gradient-by-layer", adapters, last)])
    assert nothing.severity == "not measured"
    whole = Series(location=Location(stack="stack", matrix="outer"), x=(2, 3), y=(3.0, 9.0))
    adapter = line(0.1, 0.4, 0.0, stack="stack", matrix="adapter")
    (found,) = findings("vanishing", [measurement("gradient-by-layer", whole, adapter)])
    assert found.location.layer == 2
    assert found.value == pytest.approx((3.0**2 + 0.4**2) ** 0.5 / 9.0)


def test_gradients_that_are_not_numbers_are_not_fine() -> None:
    (found,) = findings("vanishing", [measurement("gradient-by-layer", gradients(float("nan"), 1.0))], schemes=["b2t"])
    assert found.severity == "not measured"
    (one,) = findings("vanishing", [measurement("gradient-by-layer", gradients(1.0))])
    assert (one.severity, one.location.stack) == ("not measured", "stack"), "one layer has no other"


def test_thresholds_can_be_chosen() -> None:
    some = [measurement("gradient-by-layer", gradients(0.2, 1.0))]
    (usual,) = findings("vanishing", some)
    assert (usual.severity, usual.threshold) == ("warning", 0.3)

    def severity(**chosen: float) -> str:
        thresholds = Thresholds.read({"vanishing": chosen}, where="thresholds")
        return findings("vanishing", some, thresholds=thresholds)[0].severity

    assert severity(failure=0.25) == "failure"
    assert severity(warning=0.1, failure=0.05) == "fine"


@given(st.lists(st.floats(1e-30, 1e30), min_size=2, max_size=20), st.floats(1e-6, 1e6))
def test_findings_do_not_depend_on_the_scale_of_the_loss(norms: list[float], scale: float) -> None:
    one, other = (
        findings("vanishing", [measurement("gradient-by-layer", gradients(*(factor * norm for norm in norms)))])[0]
        for factor in (1.0, scale)
    )
    assert one.location == other.location
    assert one.value == pytest.approx(other.value, rel=1e-6)


def test_without_a_scheme_to_suggest_the_remedy_says_so() -> None:
    everything = [each.name for each in residual.schemes()]
    (found,) = findings("vanishing", [measurement("gradient-by-layer", gradients(1e-4, 1.0))], schemes=everything)
    assert found.remedies[-1] == SchemeTrait(avoids="vanishing", schemes=())


@pytest.mark.parametrize(
    ("training", "severity"),
    [
        ({}, "failure"),
        ({"learning_rate": 1e-3, "warmup": 100}, "failure"),
        ({"learning_rate": 1e-3, "warmup": 4000}, "warning"),
        ({"learning_rate": 2e-5}, "warning"),
    ],
)
def test_a_small_learning_rate_or_a_long_warm_up_makes_a_failure_a_warning(training: Any, severity: str) -> None:
    (found,) = findings("vanishing", [measurement("gradient-by-layer", gradients(0.05, 1.0))], **training)
    assert found.severity == severity
    assert ("usually train" in found.sentence) == (severity == "warning")
    (mild,) = findings("vanishing", [measurement("gradient-by-layer", gradients(0.2, 1.0))], **training)
    assert mild.severity == "warning"
