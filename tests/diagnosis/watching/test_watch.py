"""A watch around any loop: training is not changed, observations become a diagnosis, and alarms come early."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import lamina
from lamina import UserError, residual
from lamina.diagnosis.measurement import Location, Measurement
from lamina.diagnosis.results import Diagnosis, Finding
from lamina.diagnosis.watching.alarms import Alarm
from lamina.diagnosis.watching.history import diagnose_history
from lamina.diagnosis.watching.observation import (
    MatrixObservation,
    Observation,
)
from lamina.diagnosis.watching.watch import Watch
from support.processes import run_in_processes
from support.small_models import small_model
from support.training_loops import ForeignModel, adam, loop, take

WATCHED = {"vanished", "conditioning", "overflow", "untrained", "non-finite", "clipped"}
"""The checks that three watched steps are enough for."""
"""The checks that can be run on observations."""


def silent(alarm: Alarm) -> None:
    pass


def judged(diagnosis: Diagnosis) -> dict[str, Finding]:
    """The findings by check, without those that were not measured."""
    return {each.check: each for each in diagnosis.findings if each.severity != "not measured"}


def locations(measurement: Measurement) -> set[tuple[str | None, str | None, str | None]]:
    found = (each.location for each in measurement.measured)
    return {(each.stack, each.sublayer_kind, each.matrix) for each in found}


@pytest.mark.parametrize("name", residual.names())
def test_weights_end_bit_identical_with_and_without_a_watch(name: str) -> None:
    def train(watched: bool) -> dict[str, Tensor]:
        torch.manual_seed(5)
        model = small_model(name, dropout=0.2)
        optimiser = adam(model)
        watch: AbstractContextManager[Any] = Watch(model, optimiser, every=2) if watched else nullcontext()
        with watch:
            take(loop(model, optimiser, accumulate=2), 5)
        if watched:
            assert [each.step for each in watch.history] == [2, 4]  # type: ignore[attr-defined]
        return model.state_dict()

    with_watch, without = train(True), train(False)
    for key, value in without.items():
        assert torch.equal(with_watch[key], value), key


def test_a_foreign_model_is_watched_layer_by_layer() -> None:
    torch.manual_seed(0)
    model, x = ForeignModel(), torch.randn(2, 5, 8)
    optimiser = adam(model)
    with Watch(model, optimiser, every=2) as watch:
        for _ in range(4):
            model(x).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
    values = watch.history[-1].values()
    for layer in (1, 2, 3):
        for kind in ("query", "key", "value", "output", "inner", "outer"):
            assert values[f"update/encoder.{layer}.{kind}"] > 0, (layer, kind)
    (stream,) = watch.history[-1].streams
    assert (stream.stack, len(stream.root_mean_squares)) == ("encoder", 3)


def test_cross_attention_of_a_foreign_decoder_is_told_apart() -> None:
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2)
    optimiser = adam(model)
    with Watch(model, optimiser, every=1) as watch:
        model(torch.randn(2, 5, 8), torch.randn(2, 4, 8)).square().mean().backward()
        own, crossing = model.layers[1].self_attn, model.layers[1].multihead_attn
        expected = [float(each.in_proj_weight.grad.chunk(3)[2].norm()) for each in (own, crossing)]
        optimiser.step()
    values = watch.values()
    names = ("value", "cross-attention.value")
    assert [values[f"gradient/stack.2.{name}"] for name in names] == pytest.approx(expected)
    found = locations(watch.diagnosis()["watched-gradients"])
    assert {("stack", None, "value"), ("stack", "cross-attention", "value"), ("stack", None, "outer")} <= found


class Mixing(nn.Module):
    """A layer whose matrix has a name from which no kind follows."""

    def __init__(self) -> None:
        super().__init__()
        self.mixer = nn.ModuleDict({"dense": nn.Linear(8, 8)})

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mixer["dense"](x)


def test_a_matrix_of_unknown_kind_has_its_layer_all_the_same() -> None:
    model = nn.Sequential(*(Mixing() for _ in range(3)))
    optimiser = adam(model)
    with Watch(model, optimiser, every=1) as watch:
        model(torch.randn(2, 8)).square().mean().backward()
        optimiser.step()
    updates = watch.diagnosis()["watched-updates"]
    assert [each.location for each in updates.measured] == [Location(stack="stack", matrix="mixer.dense")]
    assert [len(grid.values) for grid in updates.grids] == [3]
    assert watch.values().keys() >= {f"update/stack.{layer}.mixer.dense" for layer in (1, 2, 3)}
    assert {each.key for each in watch.diagnosis().not_measured} == {"matrix-updates", "watched-loss"}


def test_attention_matrices_are_compared_with_the_networks_largest() -> None:
    """Liu et al. 2020, figures 5 and 11: absolute norms, by step, of queries, keys, values and outputs alone."""
    model = small_model("post-ln")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    attention = [
        (stack, sublayer)
        for stack in (model.encoder, model.decoder)
        for layer in stack.layers
        for sublayer in list(layer.sublayers)[:-1]
    ]
    largest, mean = [], []
    with Watch(model, optimiser, every=1) as watch:
        steps = loop(model, optimiser)
        for _ in range(3):
            next(steps)
            norms = {
                (stack, name, id(each)): float(getattr(each, name).weight.grad.norm())
                for stack, each in attention
                for name in ("query", "key", "value", "output")
            }
            largest.append(max(norms.values()))
            values = [norm for (stack, name, _), norm in norms.items() if stack is model.encoder and name == "value"]
            mean.append(sum(values) / len(values))
        next(steps)
    measured = watch.diagnosis()["matrix-updates"]
    expected = [each / most for each, most in zip(mean, largest, strict=True)]
    for quantity in ("gradient", "update"):  # of plain descent they are in proportion
        (series,) = measured.select(stack="encoder", matrix="value", quantity=quantity)
        assert series.y == pytest.approx(expected, rel=1e-3)
        assert series.x == (1, 2, 3)
    found = locations(measured)
    assert {("decoder", None, "query"), ("decoder", "cross-attention", "query")} <= found
    assert {matrix for _, _, matrix in found} == {"query", "key", "value", "output"}


def observed(step: int, **gradients: float) -> Observation:
    """`decoder_1=0.5`: the gradient norm of a layer; the loss is computed from the decoder."""
    matrices = []
    for name, norm in gradients.items():
        stack, layer = name.split("_")
        location = Location(stack=stack, layer=int(layer), matrix="outer")
        matrices.append(
            MatrixObservation(
                location=location, gradient_norm=norm, update_norm=norm, relative_update=norm, learning_rate=1.0
            )
        )
    return Observation(step=step, matrices=tuple(matrices), output_stack="decoder")


def vanished(*history: Observation) -> Finding:
    (found,) = (each for each in diagnose_history(history, name="", model="").findings if each.check == "vanished")
    return found


def test_a_gradient_that_stays_vanished_is_a_failure() -> None:
    even = {"encoder_1": 1e-6, "encoder_2": 1.0, "decoder_2": 1.0}
    one = vanished(observed(1, **even, decoder_1=0.5))
    assert (one.severity, one.location.stack) == ("not measured", "decoder"), "one step is not enough"
    good = vanished(observed(1, **even, decoder_1=0.5), observed(2, **even, decoder_1=0.7))
    assert (good.severity, good.location.stack, good.value) == ("fine", "decoder", 0.5)
    bad = vanished(observed(1, **even, decoder_1=0.5), observed(2, **even, decoder_1=0.005))
    assert bad.severity == "failure"
    assert bad.sentence.endswith("first at step 2; it is still below")
    lost = vanished(observed(1, **even, decoder_1=0.005), observed(2, **even, decoder_1=math.nan))
    assert lost.sentence.endswith("it is still below"), "what is not a number has not come back"
    assert vanished(observed(1, **even, decoder_1=math.nan)).severity == "not measured"


def test_layers_that_were_left_out_have_not_vanished() -> None:
    even = {"encoder_1": 1e-6, "encoder_2": 1.0, "decoder_2": 1.0}
    assert vanished(observed(1, **even, decoder_1=0.0)).severity == "not measured", "dropped in this step"
    frozen = vanished(observed(1, encoder_1=1e-6, encoder_2=1.0))
    assert frozen.severity == "not measured", "a frozen decoder is not judged"
    assert "no two trained layers" in frozen.sentence


def test_a_diagnosis_of_the_history_survives_its_file(tmp_path: Path) -> None:
    model = small_model("resi-dual")
    optimiser = adam(model)
    with Watch(model, optimiser, every=2, on_warning=silent) as watch:
        take(loop(model, optimiser), 6)
    diagnosis = watch.diagnosis("mine")
    assert (diagnosis.stage.name, diagnosis.stage.step) == ("step", 6)
    assert diagnosis.schemes == ("resi-dual",)
    updates = diagnosis["watched-updates"]
    (query,) = updates.select(stack="decoder", matrix="query", sublayer_kind=None)
    assert query.x == (2.0, 4.0, 6.0)
    assert {grid.location.stack for grid in updates.grids} == {"encoder", "decoder"}
    assert all(len(row) == 3 for grid in updates.grids for row in grid.values)
    assert diagnosis["watched-condition"].measured[0].y[0] > 0
    assert judged(diagnosis).keys() == WATCHED
    amplification = next(each for each in diagnosis.findings if each.check == "amplification")
    assert "layer-dependency was not measured: it needs passes of its own" in amplification.sentence
    diagnosis.write(tmp_path / "watch.json")
    assert Diagnosis.read(tmp_path / "watch.json") == diagnosis


def test_hooks_are_gone_afterwards_and_never_there_when_nothing_is_due() -> None:
    model = small_model("pre-ln")
    optimiser = adam(model)

    def hooks() -> int:
        own = len(optimiser._optimizer_step_pre_hooks) + len(optimiser._optimizer_step_post_hooks)
        return own + sum(len(module._forward_hooks) for module in model.modules())

    with Watch(model, optimiser, every=0) as watch:
        assert hooks() == 0
        take(loop(model, optimiser), 2)
    reasons = {each.reason for each in watch.diagnosis().not_measured}
    assert reasons == {"no step was watched: fewer steps than `every` were taken"}
    assert {each.severity for each in watch.diagnosis().findings} == {"not measured"}
    with Watch(model, optimiser, every=100):
        assert hooks() == 3
        take(loop(model, optimiser), 3)
        assert hooks() == 3, "between two observations only the model as a whole and the optimiser's step have hooks"
    assert hooks() == 0
    with pytest.raises(RuntimeError), Watch(model, optimiser, every=1):
        raise RuntimeError
    assert hooks() == 0


def test_bad_arguments() -> None:
    model = small_model("pre-ln")
    with pytest.raises(UserError, match="every is the number of steps"):
        Watch(model, adam(model), every=-1)
    flat = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(UserError, match="no repeated layers"):
        Watch(flat, adam(flat))


def test_a_users_own_loop_is_reported_as_a_page(tmp_path: Path) -> None:
    model = ForeignModel()
    optimiser = adam(model)
    with lamina.watch(model, optimiser, every=3) as watch:
        for _ in range(10):
            model(torch.randn(4, 5, 8)).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
    report = watch.report("mine")
    assert report.findings == watch.diagnosis().findings
    assert judged(report.diagnosis).keys() == WATCHED
    for ending in ("html", "md", "json"):
        report.save(tmp_path / f"watched.{ending}")
    page = unescape((tmp_path / "watched.html").read_text())
    assert page.startswith("<!doctype html>")
    for text in (page, (tmp_path / "watched.md").read_text()):
        assert "Diagnosis: mine" in text
        assert "watched at 3 steps, last at step 9" in text
        assert "batch" not in text.partition("Findings")[0], "it was watched, not given a batch"
        for measurement in report.diagnosis.measurements:
            assert measurement.about.title in text
    assert page.count('role="img"') >= 6
    assert Diagnosis.read(tmp_path / "watched.json") == report.diagnosis


def test_a_watch_without_observations_has_a_page_too() -> None:
    model = small_model("pre-ln")
    text = str(lamina.watch(model, adam(model)).report())
    assert "not watched at any step" in text
    assert "fewer steps than" in text


def watched_values(rank: int, count: int, folder: Path, how: str) -> dict[str, float]:
    """Two steps on the same batch in every process: the mean gradient is that of one process alone."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    model: nn.Module = small_model("resi-dual")
    if how == "sharded":
        for stack in (model.encoder, model.decoder):
            for layer in stack.layers:
                fully_shard(layer, mesh=init_device_mesh("cpu", (count,)))
        fully_shard(model, mesh=init_device_mesh("cpu", (count,)))
    network = DistributedDataParallel(model) if how == "replicated" else model
    optimiser = adam(network)
    with Watch(network, optimiser, every=2) as watch:
        take(loop(network, optimiser), 2)  # type: ignore[arg-type]
    values = watch.history[0].values()
    if folder != Path():
        (folder / f"{how}-{rank}.json").write_text(json.dumps(values))
    return values


def watch_both_ways(rank: int, count: int, folder: Path) -> None:
    for how in ("sharded", "replicated"):
        watched_values(rank, count, folder, how)


@pytest.mark.distributed
@pytest.mark.usefixtures("float64")
def test_several_processes_observe_what_one_observes(tmp_path: Path) -> None:
    expected = watched_values(0, 1, Path(), "alone")
    run_in_processes(2, watch_both_ways, tmp_path)
    for rank in range(2):
        replicated = json.loads((tmp_path / f"replicated-{rank}.json").read_text())
        assert replicated == pytest.approx(expected)
        sharded = json.loads((tmp_path / f"sharded-{rank}.json").read_text())
        assert expected.keys() - sharded.keys() == {"condition"}, "the state of a sharded optimiser is not measured"
        assert sharded == pytest.approx({name: expected[name] for name in sharded})
