"""Plans against measurements of real steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import Transformer, UserError, residual
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.report.terminal.runs import show_plan
from lamina.runs.plan import SavedTensors, make_plan
from lamina.runs.run import Run
from lamina.tasks import build_task
from lamina.training.config import RunConfig
from support.small_runs import config_for

MODEL = {"model_dim": 64, "feed_forward_dim": 128, "num_heads": 4, "num_layers": 4, "dropout": 0.1}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    sets = {"train": ["translation:80"], "valid": ["translation:6"], "test": ()}
    folder = tmp_path_factory.mktemp("plan") / "toy"
    return prepare(source_options("embedded-translation", ".", str(folder), tokenizer={"size": 400}, **sets))


def config(**changes: Any) -> RunConfig:
    values = {"model": MODEL, "data": {"max_tokens": 500}} | changes
    return RunConfig.read(values, where="test")


@pytest.fixture
def _torch_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention by torch's kernel, which plans are made for; on a CPU, short sequences have a function of their own."""
    monkeypatch.setattr("lamina.model.kernels.attention.LONGEST", 0)


@pytest.mark.usefixtures("_torch_attention")
@pytest.mark.parametrize("name", residual.names())
def test_what_is_kept_is_what_autograd_keeps(name: str, store: Store) -> None:
    """The same step on real tensors; attention keeps a little more or less, as each device has its own kernel."""
    chosen = config(model=MODEL | {"residual": name})
    plan = make_plan(chosen, store)
    task = build_task("translation", store, {})
    batches = task.batches("train", chosen.data)
    inputs = task.inputs(batches.batch(0, len(batches.plan.epoch(0)) // 2))
    for checkpointed, planned in ((False, plan.activations), (True, plan.activations_checkpointed)):
        choices = chosen.model.model_copy(update={"checkpoint_layers": checkpointed})
        model = Transformer.build(task.model_options(choices)).train()
        assert plan.parameters == model.num_parameters()
        task.calibrate(model, inputs)
        with SavedTensors(model) as kept:
            task.losses(model, inputs)
        assert planned == pytest.approx(kept.bytes, rel=0.15)
    assert plan.activations_checkpointed < plan.activations / 2
    assert plan.memory == 16 * plan.parameters + plan.activations, "weights, gradients and two moments in fp32"


def test_short_sequences_on_a_cpu_keep_no_more_than_planned(store: Store) -> None:
    chosen = config()
    task = build_task("translation", store, {})
    batches = task.batches("train", chosen.data)
    inputs = task.inputs(batches.batch(0, len(batches.plan.epoch(0)) // 2))
    with SavedTensors(model := Transformer.build(task.model_options(chosen.model)).train()) as kept:
        task.losses(model, inputs)
    assert kept.bytes < make_plan(chosen, store).activations < 1.5 * kept.bytes


@pytest.mark.usefixtures("_torch_attention")
def test_a_model_with_a_ctc_loss_is_planned(tmp_path: Path) -> None:
    sets = {"train": ["speech:8"], "valid": ["speech:2"], "test": ()}
    store = prepare(source_options("embedded-speech", ".", str(tmp_path / "speech"), **sets))
    model_options = MODEL | {"front_end_channels": 64}
    data = {"max_tokens": 1500}
    planned = {}
    for weight in (0.0, 0.5):
        chosen = config(task="speech-recognition", task_options={"ctc_weight": weight}, model=model_options, data=data)
        task = build_task("speech-recognition", store, chosen.task_options)
        batches = task.batches("train", chosen.data)
        inputs = task.inputs(batches.batch(0, len(batches.plan.epoch(0)) // 2))
        with SavedTensors(model := Transformer.build(task.model_options(chosen.model)).train()) as kept:
            task.losses(model, inputs)
        planned[weight] = (make_plan(chosen, store).activations, kept.bytes)
        assert planned[weight][0] == pytest.approx(planned[weight][1], rel=0.15)
    more, really_more = (each - other for each, other in zip(planned[0.5], planned[0.0], strict=True))
    assert more == pytest.approx(really_more, rel=0.2), "what the CTC loss adds"


def test_in_a_lower_precision_activations_are_smaller(store: Store) -> None:
    exact, lower = (make_plan(config(train={"precision": each}), store) for each in ("fp32", "bf16"))
    task = build_task("translation", store, {})
    batches = task.batches("train", config().data)
    inputs = task.inputs(batches.batch(0, len(batches.plan.epoch(0)) // 2))
    model = Transformer.build(task.model_options(config().model)).train()
    with SavedTensors(model) as kept, torch.autocast("cpu", torch.bfloat16):
        task.losses(model, inputs)
    assert lower.activations == pytest.approx(kept.bytes, rel=0.15)
    assert lower.activations < 0.85 * exact.activations
    assert lower.weights == exact.weights, "kept in fp32"


def test_operations_are_about_six_per_weight_and_token(store: Store) -> None:
    plan = make_plan(config(model=MODEL | {"model_dim": 256, "feed_forward_dim": 512}), store)
    assert plan.flops_per_step == pytest.approx(6 * plan.parameters * plan.tokens_per_step, rel=0.35)


def test_what_checkpointing_computes_again_takes_time(store: Store) -> None:
    plain, again = (make_plan(config(model=MODEL | {"checkpoint_layers": each}), store) for each in (False, True))
    assert again.flops_per_step > 1.15 * plain.flops_per_step, "the layers' forward pass once more; the head's not"
    assert again.flops_per_step < 4 / 3 * plain.flops_per_step
    assert again.seconds / plain.seconds == pytest.approx(again.flops_per_step / plain.flops_per_step)
    assert again.memory_checkpointed == plain.memory_checkpointed


def test_devices_and_accumulation_share_activations_and_time(store: Store) -> None:
    one, four = make_plan(config(), store), make_plan(config(), store, devices=4)
    pieces = make_plan(config(train={"accumulate": 4}), store)
    assert four.activations < 0.5 * one.activations
    assert pieces.activations < 0.5 * one.activations
    assert four.weights == one.weights
    assert four.seconds < 0.5 * one.seconds
    assert make_plan(config(optimiser={"name": "sgd"}), store).optimiser == 0
    assert make_plan(config(optimiser={"name": "sgd", "momentum": 0.9}), store).optimiser == one.weights


def test_a_batch_of_examples_has_their_mean_number_of_tokens(store: Store) -> None:
    chosen = config(data={"batch_examples": 10})
    sizes = build_task("translation", store, {}).plan("train", chosen.data).sizes
    plan = make_plan(chosen, store)
    assert plan.tokens_per_step == pytest.approx(10 * sizes.mean(), abs=1)
    assert plan.epochs == 20_000 / (len(sizes) // 10)


def test_sharding_divides_weights_gradients_and_optimiser(store: Store) -> None:
    one, copies = make_plan(config(), store), make_plan(config(), store, devices=4)
    slices = make_plan(config(train={"parallel": "fsdp"}), store, devices=4)
    for name in ("weights", "gradients", "optimiser"):
        assert getattr(copies, name) == getattr(one, name)
        assert getattr(slices, name) == pytest.approx(getattr(one, name) / 4, abs=8)
    assert slices.activations == copies.activations
    assert make_plan(config(train={"parallel": "fsdp"}), store) == one, "one device has nothing to share"


def test_a_cost_that_depends_on_the_words_is_refused(store: Store) -> None:
    with pytest.raises(UserError, match="cannot be planned"):
        make_plan(config(task="language-modelling", model=MODEL | {"adaptive_cutoffs": (5, 20)}), store)
    assert torch.get_default_dtype() == torch.float32


def test_the_plan_says_what_it_assumes(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    plan = make_plan(config(), store, devices=8, teraflops=312.0, efficiency=0.35)
    show_plan(plan)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Time: 8 devices of 312 teraFLOP/s each in fp32, of which 35% is reached" in shown
    assert "Memory: weights, gradients and optimiser state in fp32" in shown


@pytest.mark.parametrize(("task", "unit"), [("translation", "tokens"), ("speech-recognition", "frames")])
def test_the_size_of_a_step_has_the_unit_of_the_task(task: str, unit: str, stores: Path, tmp_path: Path) -> None:
    config = config_for(task, stores, data={"max_tokens": 1500})
    assert Run(config, tmp_path / "run").plan().size_unit == unit
