"""Mixed precision: runs train and resume, and the loss scale of fp16 adapts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.loop import Training
from lamina.training.precision import SMALLEST_SCALE
from support.small_runs import assert_same, building, config_for, interrupted, lines, spoiled, state_of, weights


def scaled_by(training: Training, scale: float) -> None:
    training.precision.scaler = torch.amp.GradScaler("cpu", init_scale=scale)


def test_in_fp16_a_step_that_overflows_is_skipped_and_the_scale_halved(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"precision": "fp16", "steps": 12})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        scaled_by(training, 2.0**24)
        before = state_of(training)
        first = training.update(next(training.batches.shares())[2])
        assert not first.applied
        assert_same(state_of(training), before)
        assert training.precision.scaler.get_scale() == 2.0**23
        training.run()
    skipped = lines(tmp_path / "run", "skipped")
    applied = 12 - len(skipped)
    assert 0 < len(skipped) < 12
    assert skipped == [(at, True) for at in range(1, len(skipped) + 1)], "until the scale fits"
    assert training.precision.scaler.get_scale() == 2.0 ** (23 - len(skipped))
    assert next(iter(training.optimiser.state.values()))["step"] == applied


def test_in_fp16_gradients_that_overflow_at_any_scale_are_a_failure(stores: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config_for("translation", stores, train={"precision": "fp16"}), folder)
        scaled_by(training, 4 * SMALLEST_SCALE)
        name = spoiled(training, torch.inf)
        state, reason = training.run()
    assert state == "failed"
    assert reason.startswith("the gradient of step 3 ")
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
