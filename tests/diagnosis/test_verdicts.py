"""Verdicts: plain sentences with number, threshold, place and remedy, and none that was not measured."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina import UserError, residual
from lamina.diagnosis.checks.collapse import first_idle
from lamina.diagnosis.checks.evidence import number
from lamina.diagnosis.judge import judge
from lamina.diagnosis.measures import conclude_all, take_all
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.results import Measure, Series, Verdict
from lamina.diagnosis.thresholds import VerdictOptions
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from support.small_models import SMALL

WIDE: dict[str, Any] = SMALL | {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 4}


@cache
def measured(scheme: str, depth: int, kind: str = "encoder-decoder") -> tuple[Measure, ...]:
    """A model at its start values, on random sentences."""
    torch.manual_seed(1)
    model = Transformer.build(ModelOptions(kind=kind, residual=scheme, num_layers=depth, **WIDE))
    source, target, labels = torch.randint(3, 40, (3, 8, 12))
    inputs = (source, target) if kind == "encoder-decoder" else (source,)
    model.calibrate(*inputs)  # type: ignore[operator]
    record, _ = record_pass(model, lambda model: model(*inputs, labels=labels).smoothed.mean())
    return tuple(conclude_all(take_all([record])[0]))


def verdict(found: tuple[Verdict, ...], kind: str, where: str) -> Verdict:
    return next(each for each in found if each.kind == kind and each.where.startswith(where))


def measure(key: str, **values: Any) -> Measure:
    return Measure(key=key, title="", formula="", source="", look_for="", **values)


def line(label: str, *y: float, first: int = 1) -> Series:
    return Series(label=label, x=tuple(range(first, first + len(y))), y=y)


def test_a_deep_post_ln_decoder_vanishes_at_the_norms_after_cross_attention() -> None:
    found = judge(measured("post-ln", 18), schemes=["post-ln"])
    worst = verdict(found, "vanishing", "decoder")
    assert worst.severity == "failure"
    assert worst.value < worst.threshold == VerdictOptions().vanishing_failure
    assert worst.where.startswith("decoder layer ")
    assert int(worst.where.rpartition(" ")[2]) <= 6, "one of the lowest layers"
    assert "at the norms after cross-attention" in worst.sentence
    assert f"{number(worst.value)} of layer 18's" in worst.sentence
    for able in ("pre-ln", "b2t", "resi-dual"):
        assert able in worst.advice
    assert "post-ln" not in worst.advice
    assert found[0].severity == "failure", "the worst comes first"


def test_a_stack_without_cross_attention_is_not_said_to_vanish() -> None:
    """Whatever Xiong's supplement and ResiDual derive from the norms alone."""
    deep = judge(measured("post-ln", 18, kind="decoder"), schemes=["post-ln"])
    assert verdict(deep, "vanishing", "stack").severity != "failure"
    both = judge(measured("post-ln", 18), schemes=["post-ln"])
    assert verdict(both, "vanishing", "encoder").severity != "failure"
    assert "cross-attention" not in verdict(both, "vanishing", "encoder").sentence


@pytest.mark.parametrize("scheme", ["pre-ln", "b2t", "resi-dual", "sandwich-ln"])
def test_schemes_that_keep_the_gradient_are_not_said_to_lose_it(scheme: str) -> None:
    for found in judge(measured(scheme, 18), schemes=[scheme]):
        if found.kind == "vanishing":
            assert found.severity != "failure", found.sentence
            # B2T weakens the decay, ResiDual puts a floor under it: neither removes it.
            assert found.severity == "fine" or scheme in ("b2t", "resi-dual"), found.sentence


def test_deep_post_ln_amplifies_and_deep_pre_ln_collapses() -> None:
    post, pre = (judge(measured(scheme, 18), schemes=[scheme]) for scheme in ("post-ln", "pre-ln"))
    amplified = verdict(post, "amplification", "decoder")
    assert amplified.severity == "failure"
    assert "admin" in amplified.advice
    assert verdict(pre, "amplification", "decoder").severity == "fine"
    dual = judge(measured("resi-dual", 18), schemes=["resi-dual"])
    assert all(each.kind != "amplification" for each in dual), "Liu's theorem is about a single stream"
    collapsed = verdict(pre, "collapse", "encoder")
    assert collapsed.severity == "warning", "it trains all the same"
    assert "from sub-layer" in collapsed.sentence
    assert "resi-dual" in collapsed.advice
    assert all(each.severity == "fine" for each in post if each.kind == "collapse")


def test_shallow_models_are_fine() -> None:
    for scheme in ("post-ln", "pre-ln", "b2t", "resi-dual", "admin", "deep-norm"):
        worst = [each for each in judge(measured(scheme, 2), schemes=[scheme]) if each.severity == "failure"]
        assert worst == [], scheme


def test_norms_are_named_only_where_they_lose_the_gradient() -> None:
    gradients = measure("gradient-by-layer", measured=(line("decoder outer", 1e-4, 0.1, 1.0),))
    steps = measure("gradient-along-stream", facts={"decoder cross-attention below/above": 0.5})
    (bare,) = judge([gradients])
    assert bare.sentence.endswith("it vanishes on the way down")
    assert bare.sentence.startswith("the gradient of decoder layer 1 is 1.0·10⁻⁴ of layer 3's, below 0.1")
    (at,) = judge([gradients, steps])
    assert at.sentence.endswith("it vanishes at cross-attention, each of which leaves 0.50 of it")
    norms = measure("gradient-at-norms", facts={"decoder cross-attention input/output": 0.6})
    (after,) = judge([gradients, steps, norms])
    assert "at the norms after cross-attention" in after.sentence
    even = measure("gradient-along-stream", facts={"decoder feed-forward below/above": 0.98})
    (nowhere,) = judge([gradients, even])
    assert "at no kind of sub-layer in particular" in nowhere.sentence


def test_the_weakest_layer_is_named_wherever_it_is() -> None:
    kinds = (line("stack query", 1.0, 0.003, 1.0, 1.0), line("stack outer", 1.0, 0.004, 1.0, 1.0))
    (found,) = judge([measure("gradient-by-layer", measured=kinds)])
    assert found.where == "stack layer 2"
    assert found.value == pytest.approx((0.003**2 + 0.004**2) ** 0.5 / 2**0.5)


def test_a_stack_without_any_gradient_may_be_closed_or_cut_off() -> None:
    dead = [measure("gradient-by-layer", measured=(line("stack outer", 0.0, 0.0),))]
    (foreign,) = judge(dead, highest_rate=1.0)
    assert (foreign.severity, foreign.where) == ("warning", "stack")
    assert "no gradient reaches the layers of the stack here" in foreign.sentence
    assert "a stack that still has none is cut off" in foreign.advice
    (own,) = judge(dead, schemes=["re-zero"], highest_rate=1.0)
    assert (own.severity, own.advice) == ("fine", "")


def test_only_what_the_last_layer_has_is_compared() -> None:
    """Small adapters in the lower layers, and a last layer that is trained as a whole."""
    lines = (line("stack adapter", 0.1, 0.1), line("stack outer", 9.0, first=3), line("stack adapter", 0.1, first=3))
    assert judge([measure("gradient-by-layer", measured=(lines[0], lines[1]))]) == ()
    whole = Series(label="stack outer", x=(2, 3), y=(3.0, 9.0))
    (found,) = judge([measure("gradient-by-layer", measured=(whole, line("stack adapter", 0.1, 0.4, 0.0)))])
    assert found.where == "stack layer 2"
    assert found.value == pytest.approx((3.0**2 + 0.4**2) ** 0.5 / 9.0)


@pytest.mark.parametrize("scheme", ["re-zero", "re-zero-post-ln", "fixup"])
def test_branches_that_start_at_zero_are_no_failure(scheme: str) -> None:
    assert all(found.severity != "failure" for found in judge(measured(scheme, 6), schemes=[scheme]))


def test_the_order_of_amplification_comes_from_models_of_several_depths() -> None:
    shares = measure("layer-dependency", measured=(line("encoder", *[0.7] * 24),), facts={"encoder Σβᵢᵢ²": 24 * 0.49})
    for facts, order in (
        ({"noise R² of n": 0.99, "noise R² of ln n": 0.8}, "of order n "),
        ({"noise R² of n": 0.8, "noise R² of ln n": 0.97}, "of order ln n "),
    ):
        (found,) = judge([shares, measure("output-change", facts=facts)])
        assert order in found.sentence
        assert found.value == pytest.approx(24 * 0.49 / sum(1 / i for i in range(1, 25)))
    (found,) = judge([shares])
    assert "of order" not in found.sentence


@pytest.mark.parametrize(
    ("rate", "kappa", "severity"), [(1e-4, 3200, "failure"), (1e-4, 500, "warning"), (1e-4 / 4000, 0.8, "fine")]
)
def test_conditioning_is_judged_as_the_paper_has_it(rate: float, kappa: float, severity: str) -> None:
    """d = 1024, ε = 1e-6: without gradient κ is 3200 at 1e-4, and 0.8 in a warm-up of 4000 steps."""
    still = 32 * rate / 1e-6
    adam = measure(
        "adam-conditioning",
        measured=(line("decoder", kappa / 2, kappa),),
        theory=(line("decoder without gradient", still, still),),
        facts={"rate": rate, "eps": 1e-6},
    )
    (found,) = judge([adam])
    assert found.severity == severity
    assert found.value == pytest.approx(kappa)
    assert found.where == "decoder layer 2"
    assert ("warm-up" in found.advice) == (severity != "fine")
    four = adam.model_copy(  # four times the weights: twice the κ, the same verdict
        update={
            "measured": (line("decoder", kappa, 2 * kappa),),
            "theory": (line("decoder without gradient", 2 * still, 2 * still),),
        }
    )
    assert judge([four])[0].value == pytest.approx(kappa)
    assert judge([adam.model_copy(update={"facts": {}})]) == (), "without the rate there is nothing to compare with"


@pytest.mark.parametrize(
    ("size", "severity"), [(1.0, "fine"), (1e7, "warning"), (1e9, "failure"), (float("nan"), "failure")]
)
def test_a_stream_that_does_not_fit_into_half_precision(size: float, severity: str) -> None:
    norms = measure("stream-norms", measured=(line("encoder", 1.0, size, first=0), line("encoder branch", 1e12)))
    (found,) = judge([norms])
    assert found.kind == "overflow"
    assert found.severity == severity
    assert ("bf16" in found.advice) == (severity != "fine")


def test_thresholds_can_be_chosen_and_are_checked() -> None:
    gradients = measure("gradient-by-layer", measured=(line("stack outer", 0.2, 1.0),))
    assert judge([gradients])[0].severity == "warning"
    assert judge([gradients], options=VerdictOptions(vanishing_failure=0.25))[0].severity == "failure"
    assert (
        judge([gradients], options=VerdictOptions(vanishing_warning=0.1, vanishing_failure=0.05))[0].severity == "fine"
    )
    with pytest.raises(UserError, match="vanishing_failure"):
        VerdictOptions.read({"vanishing_failure": 0}, where="diagnose.verdicts")


def test_every_threshold_is_explained() -> None:
    for name, field in VerdictOptions.model_fields.items():
        assert field.description, name


def test_nothing_measured_gives_no_verdict() -> None:
    assert judge([]) == ()
    assert judge([measure("gradient-by-layer", measured=(line("stack outer", 1.0),))]) == (), "one layer has no other"


def test_remedies_are_the_schemes_own_and_not_inherited() -> None:
    suggested = {fault: {each.name for each in residual.schemes() if fault in each.avoids} for fault in FAULTS}
    assert suggested["vanishing"] == {"pre-ln", "b2t", "resi-dual"}
    assert suggested["amplification"] == {"pre-ln", "admin", "deep-norm"}
    assert suggested["collapse"] == {"b2t", "resi-dual"}
    assert suggested["rate"] == {"pre-ln", "resi-dual"}
    gradients = measure("gradient-by-layer", measured=(line("stack outer", 1e-4, 1.0),))
    everything = [name for names in suggested.values() for name in names]
    assert judge([gradients], schemes=everything)[0].advice.startswith("another residual scheme")


FAULTS = ("vanishing", "rate", "amplification", "collapse")


@given(st.lists(st.floats(1e-30, 1e30), min_size=2, max_size=20), st.floats(1e-6, 1e6))
def test_verdicts_do_not_depend_on_the_scale_of_the_loss(norms: list[float], scale: float) -> None:
    one, other = (
        judge([measure("gradient-by-layer", measured=(line("stack outer", *(factor * norm for norm in norms)),))])
        for factor in (1.0, scale)
    )
    assert one[0].where == other[0].where
    assert one[0].value == pytest.approx(other[0].value, rel=1e-6)


@given(st.floats(1e-300, 1e300))
def test_numbers_are_written_to_two_digits(value: float) -> None:
    text = number(value).replace(",", "")
    digits, _, exponent = text.partition("·10")
    power = int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    assert float(digits) * 10.0**power == pytest.approx(value, rel=0.06)


def test_where_a_stack_falls_idle() -> None:
    assert first_idle([1.0, 1.0, 0.9, 0.8, 0.5, 0.4], 0.6) == 5
    assert first_idle([1.0, 1.0, 0.1, 1.0], 0.6) is None, "the last one works"
    assert first_idle([1.0], 0.6) is None
