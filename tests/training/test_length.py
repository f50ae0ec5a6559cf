"""The length of a run and its intervals, in steps and in epochs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lamina import UserError
from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.runs.listing import list_runs
from lamina.runs.plan import make_plan
from lamina.runs.run import Run, read_config
from lamina.tasks import build_task
from lamina.training.callbacks.display import Display
from lamina.training.config import RunConfig, TrainOptions
from lamina.training.distributed.world import ALONE
from lamina.training.length import Position, planned_steps
from lamina.training.loop import Training
from support.small_runs import assert_same, building, config_for, interrupted, lines, weights

POOLS = {"data": {"sort_pool": 8, "max_tokens": 300}}  # so that epochs differ in their number of batches


def in_epochs(stores: Path, epochs: int = 3, **changes: Any) -> RunConfig:
    train = {"steps": None, "validate_every": 0, "save_every": 0, "epochs": epochs} | changes.pop("train", {})
    return config_for("translation", stores, **POOLS, train=train, **changes)


def batches_of(config: RunConfig, epochs: int = 3) -> list[int]:
    """The number of batches in each epoch."""
    task = build_task(config.task, Store.open(config.data.store or ""), config.task_options)
    plan = task.plan("train", config.data, config.seed)
    return [len(plan.epoch(epoch)) for epoch in range(epochs)]


def test_a_run_of_some_epochs_ends_with_the_last_one(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, train={"validate_every_epochs": 1})
    batches = batches_of(config)
    assert len(set(batches)) > 1, "all epochs have the same number of batches, which tests nothing"
    status = Run(config, tmp_path / "run").train(quiet=True)
    first, second, third = batches[0], sum(batches[:2]), sum(batches)
    assert (status.has_ended, status.step) == (True, third), status.reason
    assert [step for step, _ in lines(tmp_path / "run", "valid_nll")] == [first, second, third]
    folder = RunFolder(tmp_path / "run")
    logged = {line["step"]: line["epoch"] for line in folder.metrics.read() if "valid_nll" in line}
    assert logged == {first: 1.0, second: 2.0, third: 3.0}
    assert dict(lines(tmp_path / "run", "epoch"))[1] == 1 / first


def test_checkpoints_in_epochs(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, train={"save_every_epochs": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    saved = [int(path.name.removeprefix("step-")) for path in RunFolder(tmp_path / "run").list_checkpoints()]
    assert saved == [sum(batches_of(config)[:2]), sum(batches_of(config))]


def test_batches_by_examples_resumed_with_accumulation_train_the_same(stores: Path, tmp_path: Path) -> None:
    """80 examples in batches of 32: three steps an epoch, whatever their lengths."""
    data = {"batch_examples": 32, "max_tokens": None, "sort_pool": 1}
    train = {"epochs": 2, "steps": None, "save_every": 1}
    at_once, divided = (
        config_for("translation", stores, data=data, model={"dropout": 0.0}, train=train | {"accumulate": number})
        for number in (1, 3)
    )
    assert Run(at_once, tmp_path / "at-once").train(quiet=True).step == 6
    assert Run(divided, tmp_path / "whole").train(quiet=True).step == 6
    interrupted(divided, tmp_path / "parts", after=4)
    assert Run(divided, tmp_path / "parts").train(quiet=True).step == 6
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    losses = [[loss for _, loss in lines(tmp_path / name, "loss")] for name in ("at-once", "parts")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_evaluations_in_epochs(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, train={"evaluate_every_epochs": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    assert [step for step, _ in lines(tmp_path / "run", "valid_bleu")] == [sum(batches_of(config)[:2])]


def test_by_metric_every_validation_in_epochs_is_an_evaluation(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, 2, train={"validate_every_epochs": 1, "best": "metric"})
    Run(config, tmp_path / "run").train(quiet=True)
    first, second = batches_of(config, 2)
    assert [step for step, _ in lines(tmp_path / "run", "valid_bleu")] == [first, first + second]


def test_intervals_in_epochs_with_a_length_in_steps(stores: Path, tmp_path: Path) -> None:
    first = batches_of(in_epochs(stores))[0]
    train = {"steps": first + 2, "validate_every_epochs": 1, "validate_every": 0}
    config = config_for("translation", stores, **POOLS, train=train)
    Run(config, tmp_path / "run").train(quiet=True)
    assert [step for step, _ in lines(tmp_path / "run", "valid_nll")] == [first, first + 2]


@pytest.mark.parametrize("after", [4, None])
def test_resumed_within_and_between_epochs_the_weights_are_the_same(
    after: int | None, stores: Path, tmp_path: Path
) -> None:
    """With a schedule that depends on the length, so that it must be known from the first step."""
    schedule = {"name": "linear", "learning_rate": 1e-2, "warmup_steps": 3}
    config = in_epochs(stores, schedule=schedule, train={"validate_every_epochs": 1})
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", after=after or batches_of(config)[0])
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    for name in ("loss", "epoch", "valid_nll", "learning_rate"):
        assert lines(tmp_path / "parts", name) == lines(tmp_path / "whole", name)


def test_a_linear_schedule_ends_with_the_last_epoch(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, schedule={"name": "linear", "learning_rate": 1.0, "warmup_steps": 1})
    total = sum(batches_of(config))
    assert total != 3 * batches_of(config)[0]
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
    assert training.planned_steps == total
    assert [training.schedule(step) for step in (1, total)] == [1.0, 0.0]
    assert training.schedule(total - 1) == pytest.approx(1 / (total - 1))


def test_a_warm_up_longer_than_the_epochs_is_refused(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, schedule={"name": "linear", "warmup_steps": 5000})
    with pytest.raises(UserError, match="warm-up of 5000 steps must end by step"):
        Run(config, tmp_path / "run").train(quiet=True)


def test_more_epochs_continue_a_finished_run_and_fewer_do_not(stores: Path, tmp_path: Path) -> None:
    two, three = in_epochs(stores, 2), in_epochs(stores, 3)
    assert Run(two, tmp_path / "run").train(quiet=True).step == sum(batches_of(two)[:2])
    assert Run(in_epochs(stores, 1), tmp_path / "run").train(quiet=True).step == sum(batches_of(two)[:2])
    assert Run(three, tmp_path / "run").train(quiet=True).step == sum(batches_of(two))
    Run(three, tmp_path / "whole").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "run"))


def test_another_length_in_epochs_is_refused_where_the_schedule_depends_on_it(stores: Path, tmp_path: Path) -> None:
    schedule = {"name": "linear", "warmup_steps": 1}
    Run(in_epochs(stores, 1, schedule=schedule), tmp_path / "run").train(quiet=True)
    with pytest.raises(UserError, match=r"was train.epochs = 1 and is train.epochs = 2"):
        Run(in_epochs(stores, 2, schedule=schedule), tmp_path / "run").train(quiet=True)


def test_the_stored_config_has_the_same_length(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, 1, train={"validate_every_epochs": 1})
    Run(config, tmp_path / "run").train(quiet=True)
    stored = read_config(tmp_path / "run").train
    assert (stored.steps, stored.epochs, stored.validate_every, stored.validate_every_epochs) == (None, 1, 0, 1)
    [listed] = list_runs(tmp_path / "run")
    assert listed.steps == listed.step == batches_of(config)[0]


def test_epochs_replace_the_defaults_in_steps() -> None:
    options = TrainOptions(epochs=15, validate_every_epochs=1)
    assert (options.steps, options.validate_every, options.save_every) == (None, 0, 500)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"epochs": 3, "steps": 100},
            r"train\.epochs: steps = 100 is given too; leave one of them out, or set steps to none",
        ),
        (
            {"validate_every_epochs": 1, "validate_every": 50},
            r"train\.validate_every_epochs: .* set validate_every to 0",
        ),
        ({"save_every_epochs": 1, "save_every": 50}, r"train\.save_every_epochs: save_every = 50 is given too"),
        ({"evaluate_every_epochs": 1, "evaluate_every": 5}, r"train\.evaluate_every_epochs: evaluate_every = 5"),
        ({"steps": "none"}, "the length of training is not given; set steps or epochs"),
        ({"epochs": 0}, r"train\.epochs: .*at least 1|train\.epochs: .*greater than 0"),
        ({"epochs": 1.5}, r"train\.epochs: must be a whole number"),
    ],
)
def test_conflicting_lengths_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.read({"train": values}, where="own.toml")


def test_the_total_is_exact_in_the_last_epoch() -> None:
    options = TrainOptions(epochs=3)
    assert Position(step=4, epoch=0, index=4, batches=10).total_steps(options) == 30
    assert Position(step=13, epoch=1, index=3, batches=12).total_steps(options) == 10 + 24
    assert Position(step=24, epoch=2, index=2, batches=9).total_steps(options) == 22 + 9
    assert Position(step=31, epoch=2, index=9, batches=9).total_steps(options) == 31
    assert Position(step=31, epoch=2, index=9, batches=9).total_steps(TrainOptions(steps=50)) == 50


def test_the_step_line_says_how_many_epochs_there_are(stores: Path, tmp_path: Path) -> None:
    config = in_epochs(stores, 1, train={"validate_every_epochs": 1})
    display, shown = Display(), io.StringIO()
    display.console = Console(file=shown, width=200, highlight=False)
    with RunFolder(tmp_path / "run").claim() as folder:
        Training(config, Store.open(config.data.store or ""), folder, ALONE, display).run()
    batches = batches_of(config)[0]
    assert f"step 1/{batches}  epoch {1 / batches:.2f}/1  loss" in shown.getvalue()
    assert f"step {batches}  epoch 1.00/1  validation nll" in shown.getvalue()


def test_the_plan_of_a_run_in_epochs(stores: Path) -> None:
    config = in_epochs(stores, 15)
    store, batches = Store.open(config.data.store or ""), batches_of(config)[0]
    plan = make_plan(config, store)
    assert (plan.steps, plan.epochs) == (15 * batches, 15)
    assert f"{15 * batches} steps, which are 15 epochs of {batches} batches" in " ".join(plan.assumptions)
    other = make_plan(config_for("translation", stores, **POOLS, train={"steps": 15 * batches}), store)
    assert (other.steps, other.epochs, other.seconds) == (plan.steps, 15, plan.seconds)


def test_epochs_are_planned_only_where_the_schedule_depends_on_them(stores: Path) -> None:
    config = in_epochs(stores, 3)
    task = build_task(config.task, Store.open(config.data.store or ""), config.task_options)
    plan = task.plan("train", config.data, config.seed)
    assert planned_steps(config, plan) == 3 * batches_of(config)[0]
    linear = in_epochs(stores, 3, schedule={"name": "linear", "warmup_steps": 1})
    assert planned_steps(linear, plan) == sum(batches_of(config)) == plan.count_batches(3)
