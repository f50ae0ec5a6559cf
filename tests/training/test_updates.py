"""One update: clipping, loss scaling, what stops it, what it is calibrated on, and the same when compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.tasks.translation import Translation
from lamina.training.callbacks.base import Callback
from lamina.training.distributed.world import World
from lamina.training.loop import Training
from lamina.training.micro_batches import TrainingBatches
from lamina.training.precision import SMALLEST_SCALE
from support.small_runs import assert_same, before_update, building, config_for, lines, store_for, weights


def state_of(training: Training) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def test_the_gradient_is_cut_to_the_norm_that_was_set(stores: Path, tmp_path: Path) -> None:
    """A step of plain SGD at rate 1 moves the weights by the clipped gradient itself."""
    plain = {"optimiser": {"name": "sgd"}, "schedule": {"name": "constant", "learning_rate": 1.0, "warmup_steps": 1}}

    def moved(clip: float) -> tuple[float, float]:
        training = building(
            config_for("translation", stores, **plain, train={"clip": clip}), RunFolder(tmp_path / "unused")
        )
        before = [each.detach().clone() for each in training.model.parameters()]
        update = training.update(next(training.batches.shares())[2])
        steps = [(new - old).flatten() for new, old in zip(training.model.parameters(), before, strict=True)]
        return update.gradient_norm, torch.cat(steps).norm().item()

    norm, free = moved(0.0)
    assert free == pytest.approx(norm, rel=1e-4)
    assert norm > 0.05
    assert moved(0.01) == pytest.approx((norm, 0.01), rel=1e-3)
    assert moved(10 * norm) == pytest.approx((norm, norm), rel=1e-4)


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


def spoiled(training: Training, value: float, from_step: int = 1) -> str:
    """Make the gradient of one matrix no number; its name."""
    name = "decoder.layers.1.sublayers.2.inner.weight"

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * value if training.step + 1 >= from_step else gradient

    training.model.get_parameter(name).register_hook(spoil)
    return name


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_gradient_that_is_no_number_stops_before_the_update_and_is_named(
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


class Poison(Callback):
    def on_step(self, training: Training, values: Mapping[str, Any]) -> None:
        if training.step == 2:
            training.model.get_parameter("decoder.layers.0.sublayers.0.output.weight").data.fill_(torch.nan)


def test_a_search_that_refuses_a_diverged_model_is_a_failure(stores: Path, tmp_path: Path) -> None:
    """The step is fine, the weights after it are not, and the metric is measured before the loss."""
    config = config_for("translation", stores, train={"best": "metric", "validate_every": 2})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        training.callbacks.append(Poison())
        assert training.run() == ("failed", "the validation loss after step 2 is not finite")


@pytest.mark.parametrize("way", [{"accumulate": 3}, {"accumulate": 32}])
def test_what_a_scheme_is_calibrated_on_does_not_depend_on_how_batches_are_cut(
    way: dict[str, Any], stores: Path, tmp_path: Path
) -> None:
    def omegas(**changes: Any) -> dict[str, torch.Tensor]:
        config = config_for("translation", stores, model={"residual": "admin", "dropout": 0.3}, train=changes)
        training = building(config, RunFolder(tmp_path / "unused"))
        return {name: value for name, value in state_of(training).items() if name.endswith("omega")}

    assert_same(omegas(**way), omegas())


def test_every_process_is_shown_the_same_first_batch(stores: Path) -> None:
    config = config_for("translation", stores, train={"accumulate": 2})
    task = Translation(store_for("translation", stores), Translation.Options())
    alone = TrainingBatches(task, config_for("translation", stores), World(0, 1, torch.device("cpu")))
    _, _, [whole] = next(alone.shares())
    for rank in range(3):
        first = TrainingBatches(task, config, World(rank, 3, torch.device("cpu"))).first()
        for name, tensor in whole.tensors.items():
            assert torch.equal(first.tensors[name], tensor)


def test_compiled_layers_train_the_same_weights(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiler's front-end alone, which computes as the plain model does, bit for bit."""
    compiled: list[Any] = []
    compile_function = torch.compile

    def by_eager(function: Any, *given: Any, **options: Any) -> Any:
        compiled.append(function.__self__)
        return compile_function(function, backend="eager")

    config = config_for("translation", stores, model={"dropout": 0.0}, train={"steps": 3})
    Run(config, tmp_path / "plain").train(quiet=True)
    monkeypatch.setattr(torch, "compile", by_eager)
    asked = config_for("translation", stores, model={"dropout": 0.0}, train={"steps": 3, "compile": True})
    Run(asked, tmp_path / "compiled").train(quiet=True)
    assert {type(each).__name__ for each in compiled} == {"Layer"}
    assert len(compiled) == 4
    assert_same(weights(tmp_path / "plain"), weights(tmp_path / "compiled"))
