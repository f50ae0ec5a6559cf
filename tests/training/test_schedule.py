"""Schedules: the papers' formulas, value by value, and what must hold for any numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UserError
from lamina.training.schedule import Schedule, ScheduleOptions, build_schedule

NAMES = ["inverse-root", "linear", "constant", "step", "step-then-inverse-root", "shifted-root"]
warmups = st.integers(1, 5000)


def schedule(name: str, total_steps: int = 100_000, steps_per_epoch: int = 1000, **values: Any) -> Schedule:
    options = ScheduleOptions.read({"name": name, "learning_rate": 1e-3, **values}, "test")
    return build_schedule(options, total_steps=total_steps, steps_per_epoch=steps_per_epoch)


@given(st.integers(1, 100_000), warmups)
def test_inverse_root_is_the_formula_of_vaswani(step: int, warmup: int) -> None:
    """d^-½ · min(t^-½, t · T^-1½), whose peak is (d · T)^-½."""
    rate = schedule("inverse-root", warmup_steps=warmup, learning_rate=(512 * warmup) ** -0.5)
    assert rate(step) == pytest.approx(512**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


def test_inverse_root_value_by_value() -> None:
    rate = schedule("inverse-root")  # T = D = 4,000
    assert [rate(step) for step in (1, 2000, 4000, 16_000)] == [1e-3 / 4000, 5e-4, 1e-3, 5e-4]
    later = schedule("inverse-root", warmup_steps=100, decay_steps=400)
    assert [later(step) for step in (50, 100, 250, 400, 1600)] == [5e-4, 1e-3, 1e-3, 1e-3, 5e-4]


def test_the_two_readings_of_no_warm_up() -> None:
    literal = schedule("inverse-root", warmup_steps=1)
    assert literal(1) == 1e-3
    assert literal(10_000) == pytest.approx(1e-5, rel=1e-12)  # a hundredfold
    kept = schedule("inverse-root", warmup_steps=1, decay_steps=4000)
    assert [kept(step) for step in (1, 4000, 16_000)] == [1e-3, 1e-3, 5e-4]


@given(warmups, st.integers(2, 5000), st.data())
def test_linear_falls_evenly_to_zero_at_the_last_step(warmup: int, falling: int, data: st.DataObject) -> None:
    last = warmup + falling
    rate = schedule("linear", total_steps=last, warmup_steps=warmup)
    assert rate(warmup) == 1e-3
    assert rate(last) == 0.0
    step = data.draw(st.integers(warmup, last))
    assert rate(step) == pytest.approx(1e-3 * (last - step) / falling, rel=1e-12)


@given(st.integers(1, 20), st.integers(1, 3000))
def test_the_step_comes_after_whole_epochs(epochs: int, steps_per_epoch: int) -> None:
    end = epochs * steps_per_epoch
    rate = schedule("step", steps_per_epoch=steps_per_epoch, constant_epochs=epochs, decay_factor=0.25)
    assert [rate(1), rate(end), rate(end + 1), rate(10 * end)] == [1e-3, 1e-3, 2.5e-4, 2.5e-4]
    root = schedule("step-then-inverse-root", steps_per_epoch=steps_per_epoch, constant_epochs=epochs)
    assert [root(1), root(end), root(4 * end), root(100 * end)] == [1e-3, 1e-3, 5e-4, 1e-4]


def test_the_papers_epochs_are_the_defaults() -> None:
    step = schedule("step")
    assert [step(7000), step(7001)] == [1e-3, 1e-4]  # decayed by 0.1 at the 8th epoch
    root = schedule("step-then-inverse-root")
    assert [root(6000), root(24_000)] == [1e-3, 5e-4]


def test_shifted_root_has_no_warm_up() -> None:
    rate = schedule("shifted-root")
    assert rate(1) == 1e-3 * math.sqrt(4000 / 4001)
    assert rate(12_000) == 5e-4
    assert schedule("shifted-root", decay_steps=10)(30) == 5e-4


@given(st.sampled_from(NAMES), st.integers(1, 6000), st.data())
def test_learning_rates_rise_to_the_peak_and_never_again(name: str, warmup: int, data: st.DataObject) -> None:
    warmup = 1 if name == "shifted-root" else warmup
    rate = schedule(name, warmup_steps=warmup)
    step = data.draw(st.integers(1, 99_999) | st.sampled_from([max(1, warmup - 1), warmup, warmup + 1]))
    assert 0 <= rate(step + 1) <= 1e-3
    if step < warmup:
        assert rate(step) < rate(step + 1)
        assert rate(step) == pytest.approx(1e-3 * step / warmup, rel=1e-12)
    else:
        assert rate(step) >= rate(step + 1)


@given(
    st.sampled_from(["inverse-root", "linear", "constant", "step-then-inverse-root", "shifted-root"]),
    warmups,
    st.data(),
)
def test_no_jump_at_any_joint(name: str, warmup: int, data: st.DataObject) -> None:
    """From one step to the next the rate never changes by more than its steepest slope there."""
    warmup = 1 if name == "shifted-root" else warmup
    rate = schedule(name, warmup_steps=warmup)
    joints = [warmup, 6000, 4000]
    step = data.draw(st.integers(1, 99_999) | st.sampled_from([joint + by for joint in joints for by in (-1, 0, 1)]))
    step = max(1, step)
    slope = max(1 / warmup if step < warmup else 0.0, 1 / (2 * step) if name != "linear" else 1 / (100_000 - warmup))
    assert abs(rate(step + 1) - rate(step)) <= 1e-3 * slope * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("inverse-root", {"warmup_steps": 100, "decay_steps": 99}, "decay_steps must be at least warmup_steps, 100"),
        ("shifted-root", {"warmup_steps": 100}, "'shifted-root' has no warm-up"),
        ("linear", {"total_steps": 4000}, "warm-up of 4000 steps must end by step 3999, before the last step"),
        ("step", {"warmup_steps": 7001}, "must end by step 7000, before the learning rate falls"),
        ("step-then-inverse-root", {"warmup_steps": 6001}, "must end by step 6000"),
        ("cosine", {}, "unknown value 'cosine'"),
        ("constant", {"warmup_steps": 0}, "warmup_steps"),
        ("constant", {"learning_rate": 0}, "learning_rate"),
        ("constant", {"learning_rate": math.inf}, "learning_rate"),
        ("step", {"decay_factor": 1.5}, "decay_factor"),
    ],
)
def test_mistakes_are_explained(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        schedule(name, **values)
