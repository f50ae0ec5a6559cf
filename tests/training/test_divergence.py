"""Divergence is a result: it is detected before the weights change, and the module is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import residual
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from support.small_runs import assert_same, before_update, building, config_for, spoiled, state_of


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_gradient_that_is_nan_stops_before_the_update_and_is_located(
    value: float, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores)
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        name, before = spoiled(training, value, from_step=3), {}
        before_update(training, lambda step: before.update(state_of(training)))
        state, reason = training.run()
    assert state == "failed"
    assert reason == f"the gradient of step 3 (epoch 0, batch 2) is not finite, first in the gradient of {name}"
    assert_same(state_of(training), before)
    report = json.loads((tmp_path / "run" / "diagnosis" / "failure.json").read_text())
    assert torch.isfinite(torch.tensor(float(report["loss"])))
    assert not torch.isfinite(torch.tensor(float(report["gradient_norm"])))
    assert sorted(report["examples"]) == sorted(training.batches.plan.epoch(0)[2])
    assert report["first_bad"].endswith(name)


@pytest.mark.parametrize("name", residual.names())
def test_a_value_that_is_not_finite_stops_before_the_update_and_is_located(
    name: str, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores, model={"residual": name})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        before = {}

        def poison(step: int) -> None:
            if step == 3:
                training.model.decoder.layers[1].sublayers[2].inner.weight.data[0, 0] = torch.nan
                before.update({key: value.clone() for key, value in training.model.state_dict().items()})

        before_update(training, poison)
        state, reason = training.run()
        assert state == "failed"
        assert "step 3" in reason
        assert "decoder.layers.1.sublayers.2.inner" in reason
        for key, value in before.items():
            assert torch.equal(training.model.state_dict()[key].nan_to_num(7.0), value.nan_to_num(7.0)), key
        report = json.loads((folder.diagnosis / "failure.json").read_text())
        assert report["step"] == 3
        batch = training.task.batches("train", config.data, seed=config.seed).batch(0, 2)
        assert sorted(report["examples"]) == sorted(batch.examples)


def test_a_loss_that_stays_above_its_start_is_a_failure(stores: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 3.0}, "train": {"steps": 120}}
    status = Run(config_for("translation", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "above its start" in status.reason
    assert status.step < 120
