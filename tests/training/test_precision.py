"""Mixed precision: runs train and resume, and the loss scale of fp16 adapts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.loop import Training
from lamina.training.precision import LossScaleOptions, Precision
from support.small_runs import assert_same, building, config_for, interrupted, lines, spoiled, state_of, weights


def scaled_by(training: Training, scale: float) -> None:
    training.precision.scaler = torch.amp.GradScaler("cpu", init_scale=scale)


def test_in_fp16_a_step_that_overflows_is_skipped_and_the_scale_halved(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"precision": "fp16", "steps": 12})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        scaled_by(training, 2.0**24)
        before = state_of(training)
        first = training.update(next(training.batches.shares()))
        assert not first.applied
        assert_same(state_of(training), before)
        assert training.precision.scaler.get_scale() == 2.0**23
        training.run()
    skipped = lines(tmp_path / "run", "skipped")
    applied = 11 - len(skipped)  # the first of the 12 steps was skipped above
    assert 0 < len(skipped) < 11
    assert skipped == [(at, True) for at in range(2, len(skipped) + 2)], "from the second step, until the scale fits"
    assert training.precision.scaler.get_scale() == 2.0 ** (23 - len(skipped))
    assert next(iter(training.optimiser.state.values()))["step"] == applied


def test_in_fp16_gradients_that_overflow_at_any_scale_are_a_failure(stores: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config_for("translation", stores, train={"precision": "fp16"}), folder)
        scaled_by(training, 4 * LossScaleOptions().stop_at)
        name = spoiled(training, torch.inf)
        state, reason = training.run()
    assert state == "failed"
    assert reason.startswith("the gradient of step 3 ")
    assert "is not finite at a loss scale of 6.1e-05, where train.loss_scale.stop_at ends training" in reason
    assert reason.endswith(f"first in the gradient of {name}")
    assert len(lines(tmp_path / "run", "skipped")) == 2


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_trains_and_resumes(precision: str, stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"precision": precision})
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", 3)
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    first, *_, last = [line["nll"] for line in RunFolder(tmp_path / "whole").metrics.read() if "nll" in line]
    assert last < first


def step_with(precision: Precision, overflows: bool) -> None:
    """A step of the optimiser with a real loss scaler on the CPU."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.0)
    precision.backward((weight * (torch.inf if overflows else 1.0)).sum())
    precision.unscale(optimiser)
    precision.step(optimiser)


def scales(options: LossScaleOptions, overflows: list[bool]) -> list[float]:
    precision, found = Precision("fp16", torch.device("cpu"), options), []
    for each in overflows:
        step_with(precision, each)
        found.append(precision.scaler.get_scale())
    return found


def test_the_scale_starts_grows_and_shrinks_as_the_options_say() -> None:
    options = LossScaleOptions(initial=8.0, window=3)
    assert scales(options, [False] * 4 + [True] + [False] * 4) == [8, 8, 16, 16, 8, 8, 8, 16, 16]


def test_the_minimum_of_the_scale_is_kept_and_steps_are_skipped() -> None:
    """Admin's setting on WMT: a window of 256 steps and a minimum of 0.03125."""
    options = LossScaleOptions(initial=0.125, window=2, minimum=0.03125)
    assert scales(options, [True] * 4 + [False] * 2) == [0.0625, 0.03125, 0.03125, 0.03125, 0.03125, 0.0625]
    precision = Precision("fp16", torch.device("cpu"), options)
    for _ in range(5):
        step_with(precision, overflows=True)
        assert precision.may_skip()


def test_below_the_smallest_scale_a_run_stops(stores: Path, tmp_path: Path) -> None:
    train = {"precision": "fp16", "loss_scale": {"initial": 4.0, "window": 256, "stop_at": 1.0}}
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config_for("translation", stores, train=train), folder)
        spoiled(training, torch.inf)
        state, reason = training.run()
    assert state == "failed"
    assert "at a loss scale of 1, where train.loss_scale.stop_at ends training" in reason
    assert [step for step, _ in lines(tmp_path / "run", "skipped")] == [1, 2]


def test_a_resumed_scale_is_that_of_the_checkpoint_and_its_window_that_of_the_config() -> None:
    before = Precision("fp16", torch.device("cpu"), LossScaleOptions(initial=8.0, window=100))
    for overflows in (True, False, False):
        step_with(before, overflows)
    after = Precision("fp16", torch.device("cpu"), LossScaleOptions(window=3))
    after.restore(before.state())
    assert after.scaler.get_scale() == 4.0
    step_with(after, overflows=False)
    assert after.scaler.get_scale() == 8.0, "the third step in a row without an overflow"


def test_an_initial_scale_below_the_smallest_is_refused() -> None:
    with pytest.raises(UserError, match="initial 1e-05 is below the smallest scale"):
        LossScaleOptions.read({"initial": 1e-5}, "test")
    with pytest.raises(UserError, match="initial 0.5 is below the smallest scale, 2"):
        LossScaleOptions.read({"initial": 0.5, "minimum": 2.0}, "test")
