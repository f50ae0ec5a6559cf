"""A watch around anybody's loop: nothing changes, what is noted is right, and trouble is told early."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from lamina import UserError, residual
from lamina.diagnose.band import Band, BandOptions
from lamina.diagnose.history import Departure, split_label
from lamina.diagnose.measure.adam_conditioning import Rule
from lamina.diagnose.results import Diagnosis
from lamina.diagnose.watch import Watch
from lamina.model.encoder_decoder import EncoderDecoder
from processes import run_in_processes
from small_models import LABELS, SOURCE, TARGET, small_model

Steps = Callable[[int], None]


class Foreign(nn.Module):
    """Somebody else's model: layers in a list, query, key and value in one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 3, enable_nested_tensor=False
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


def loop(model: EncoderDecoder, optimizer: torch.optim.Optimizer, accumulate: int = 1) -> Iterator[Tensor]:
    """A plain loop of one's own; yields before every step, so that a test can meddle."""
    while True:
        for _ in range(accumulate):
            loss = model(SOURCE, TARGET, labels=LABELS).smoothed.mean()
            loss.backward()
        yield loss.detach()
        optimizer.step()
        optimizer.zero_grad()


def adam(model: nn.Module, rate: float = 1e-3, **options: Any) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), **options)


def silent(departure: Departure) -> None:
    pass


def take(steps: Iterator[Any], count: int) -> None:
    """`count` whole steps: the last one is done when the next begins."""
    for _ in range(count + 1):
        next(steps)


@pytest.mark.parametrize("name", residual.names())
def test_weights_end_bit_identical_with_and_without_a_watch(name: str) -> None:
    def train(watched: bool) -> dict[str, Tensor]:
        torch.manual_seed(5)
        model = small_model(name, dropout=0.2)
        optimizer = adam(model)
        watch: AbstractContextManager[Any] = Watch(model, optimizer, every=2) if watched else nullcontext()
        with watch:
            take(loop(model, optimizer, accumulate=2), 5)
        if watched:
            assert [look.step for look in watch.history] == [2, 4]  # type: ignore[attr-defined]
        return model.state_dict()

    with_watch, without = train(True), train(False)
    for key, value in without.items():
        assert torch.equal(with_watch[key], value), key


@pytest.mark.parametrize("kind", ["adam", "adam-fused", "adamw", "radam", "sgd"])
def test_what_is_noted_is_what_happened(kind: str) -> None:
    model = small_model("b2t")
    makers: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "adam": lambda: adam(model),
        "adam-fused": lambda: adam(model, fused=True),
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1),
        "radam": lambda: torch.optim.RAdam(model.parameters(), lr=1e-3),
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    }
    optimizer = makers[kind]()
    attention = model.decoder.layers[1].sublayers
    queries = [attention[0].query.weight, attention[1].query.weight]
    outer = model.encoder.layers[0].sublayers[1].outer.weight
    with Watch(model, optimizer, every=3) as watch:
        steps = loop(model, optimizer)
        take(steps, 2)
        gradient = math.hypot(*(float(query.grad.norm()) for query in queries))
        before = [query.detach().clone() for query in queries]
        outer_before = outer.detach().clone()
        next(steps)
        values = watch.values()
        assert values["gradient/decoder.2.query"] == pytest.approx(gradient)
        moved = math.hypot(*((query.detach() - old).norm().item() for query, old in zip(queries, before, strict=True)))
        assert values["update/decoder.2.query"] == pytest.approx(moved / math.hypot(*(float(w.norm()) for w in before)))
        change = ((outer.detach() - outer_before).norm() / outer_before.norm()).item()
        assert values["update/encoder.1.outer"] == pytest.approx(change)
        assert ("condition" in values) == kind.startswith("adam")
        next(steps)
        assert watch.values() == {}, "the fourth step was not watched"


def test_condition_is_the_derivative_of_the_step() -> None:
    model = small_model("pre-ln", 1)
    optimizer = adam(model, eps=1e-6)
    with Watch(model, optimizer, every=1) as watch:
        steps = loop(model, optimizer)
        take(steps, 2)
        gradients = [p.grad.clone() for p in model.parameters() if p.dim() >= 2 and p.grad is not None]
        states = [optimizer.state[p] for p in model.parameters() if p.dim() >= 2 and p.grad is not None]
        moments = [(state["exp_avg"].clone(), state["exp_avg_sq"].clone()) for state in states]
        next(steps)
    rule = Rule(1e-3, (0.9, 0.98), 1e-6)
    found = 0.0
    for gradient, (first, second) in zip(gradients, moments, strict=True):
        at = gradient.double().requires_grad_()
        new_first = 0.9 * first.double() + 0.1 * at
        new_second = 0.98 * second.double() + 0.02 * at.square()
        update = rule.rate * (new_first / (1 - 0.9**3)) / ((new_second / (1 - 0.98**3)).sqrt() + rule.eps)
        (derivative,) = torch.autograd.grad(update.sum(), at)
        found += float(derivative.nan_to_num(rule.rate * 0.1 / (1 - 0.9**3) / rule.eps).square().sum())
    measured = watch.history[-1].sizes.condition
    assert measured is not None
    assert measured.facts["κ"] == pytest.approx(found**0.5, rel=1e-3)


def test_streams_are_those_of_the_training_pass() -> None:
    model = small_model("pre-ln", 3)
    optimizer = adam(model)
    seen: list[Tensor] = []
    model.encoder.layers[2].register_forward_hook(lambda layer, inputs, state: seen.append(state.detach()))
    with Watch(model, optimizer, every=1) as watch:
        steps = loop(model, optimizer)
        next(steps)
        with torch.no_grad():  # a validation between two steps is not the training pass
            model(SOURCE[:1], TARGET[:1])
        next(steps)
    streams = watch.history[0].streams
    assert streams.sizes["encoder"][2] == pytest.approx(seen[0].square().mean().sqrt().item())
    assert set(streams.sizes) == {"encoder", "decoder"}
    assert len(streams.sizes["encoder"]) == 3
    assert sorted(streams.sizes["encoder"]) == list(streams.sizes["encoder"]), "a pre-LN stream grows"
    assert streams.peaks["encoder"] == pytest.approx(seen[0].abs().max().item())


def test_a_foreign_model_is_watched_layer_by_layer() -> None:
    torch.manual_seed(0)
    model, x = Foreign(), torch.randn(2, 5, 8)
    optimizer = adam(model)
    with Watch(model, optimizer, every=2) as watch:
        for _ in range(4):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    values = watch.history[-1].values()
    for layer in (1, 2, 3):
        for kind in ("query", "key", "value", "output", "inner", "outer"):
            assert values[f"update/encoder.{layer}.{kind}"] > 0, (layer, kind)
    assert len(watch.history[-1].streams.sizes["encoder"]) == 3


def test_updates_that_leave_their_band_are_told_once_and_then_judged() -> None:
    """The gradient of one matrix grows tenfold, as before a divergence, at the same rate."""
    model = small_model("post-ln")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    told: list[Departure] = []
    with Watch(model, optimizer, every=2, on_warning=told.append) as watch:
        steps = loop(model, optimizer)
        take(steps, 40)
        assert told == [], "forty quiet steps"
        weight = model.encoder.layers[1].sublayers[1].outer.weight
        for _ in range(4):
            weight.grad *= 10
            next(steps)
    assert len(told) == 1
    assert told[0].step == 42
    assert told[0].matrix == "encoder.2.outer"
    assert told[0].times > 5
    assert "encoder.2.outer" in str(told[0])
    verdict = next(each for each in watch.diagnosis().verdicts if each.kind == "unstable")
    assert verdict.severity == "warning"
    assert verdict.where == "step 42"
    assert verdict.advice


def test_a_schedule_does_not_look_like_trouble() -> None:
    model = small_model("pre-ln")
    optimizer = adam(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Watch(model, optimizer, every=2):
            steps = loop(model, optimizer)
            for step in range(1, 60):
                optimizer.param_groups[0]["lr"] = 1e-4 * min(step / 20, (20 / step) ** 0.5)
                next(steps)


def test_warnings_are_the_default() -> None:
    model = small_model("pre-ln")
    watch = Watch(model, adam(model))
    with pytest.warns(UserWarning, match="step 3: the update of decoder.1.query is 7 times its usual size"):
        watch.on_warning(Departure(3, "decoder.1.query", 7.0, 1, 10))


def test_a_diagnosis_of_the_history_survives_its_file(tmp_path: Path) -> None:
    model = small_model("resi-dual")
    optimizer = adam(model)
    with Watch(model, optimizer, every=2, on_warning=silent) as watch:
        take(loop(model, optimizer), 6)
    diagnosis = watch.diagnosis("mine")
    assert diagnosis.step == 6
    assert diagnosis.schemes == ("resi-dual",)
    updates = diagnosis["watched-updates"]
    query = next(each for each in updates.measured if each.label == "decoder query")
    assert query.x == (2.0, 4.0, 6.0)
    assert {grid.label for grid in updates.grids} == {"encoder", "decoder"}
    assert all(len(row) == 3 for grid in updates.grids for row in grid.values)
    assert diagnosis["watched-condition"].measured[0].y[0] > 0
    assert {verdict.kind for verdict in diagnosis.verdicts} == {"unstable", "conditioning", "overflow"}
    diagnosis.write(tmp_path / "watch.json")
    assert Diagnosis.read(tmp_path / "watch.json") == diagnosis


def test_hooks_are_gone_afterwards_and_never_there_when_nothing_is_due() -> None:
    model = small_model("pre-ln")
    optimizer = adam(model)

    def hooks() -> int:
        own = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
        return own + sum(len(module._forward_hooks) for module in model.modules())

    with Watch(model, optimizer, every=0) as watch:
        assert hooks() == 0
        take(loop(model, optimizer), 2)
    assert watch.diagnosis().skipped[0].reason == "no step was watched: fewer steps than `every` were taken"
    with Watch(model, optimizer, every=100):
        assert hooks() == 2
        take(loop(model, optimizer), 3)
        assert hooks() == 2, "only the optimiser's step is looked at between two looks"
    assert hooks() == 0
    with pytest.raises(RuntimeError), Watch(model, optimizer, every=1):
        raise RuntimeError
    assert hooks() == 0


def test_bad_arguments() -> None:
    model = small_model("pre-ln")
    with pytest.raises(UserError, match="every is the number of steps"):
        Watch(model, adam(model), every=-1)
    flat = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(UserError, match="no repeated layers"):
        Watch(flat, adam(flat))


def test_a_step_that_moves_nothing_and_a_number_that_is_none() -> None:
    model = small_model("pre-ln")
    optimizer = adam(model)
    told: list[Departure] = []
    with Watch(model, optimizer, every=1, on_warning=told.append) as watch:
        steps = loop(model, optimizer)
        take(steps, 3)
        optimizer.param_groups[0]["lr"] = 0.0
        next(steps)
        assert watch.values()["update/encoder.1.query"] == 0
        optimizer.param_groups[0]["lr"] = 1e-3
        model.encoder.layers[0].sublayers[1].inner.weight.grad[0, 0] = math.nan
        next(steps)
    assert [departure.matrix for departure in told] == ["encoder.1.inner"]
    assert next(each for each in watch.diagnosis().verdicts if each.kind == "unstable").severity == "failure"


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=40), st.floats(1e-20, 1e20))
def test_a_band_does_not_depend_on_the_unit(sizes: list[float], unit: float) -> None:
    one, other = Band(BandOptions()), Band(BandOptions())
    for size in sizes:
        first, second = one.follow(size), other.follow(size * unit)
        assert (first is None) == (second is None)


def test_a_band_is_left_upwards_and_far_enough() -> None:
    band = Band(BandOptions(least=5, width=6, factor=1.5))
    for size in (1.0, 1.01, 0.99, 1.02, 0.98):
        assert band.follow(size) is None
    assert band.follow(1.4) is None, "less than the least factor"
    assert band.follow(0.01) is None, "downwards is no danger"
    assert band.follow(3.0) == pytest.approx(3.0, rel=0.02)
    noisy = Band(BandOptions(least=5))
    for size in (1.0, 4.0, 0.3, 2.0, 0.5, 3.0):
        assert noisy.follow(size) is None
    assert noisy.follow(5.0) is None, "no more than the noise it has"
    assert noisy.follow(math.inf) == math.inf


def test_labels_can_be_taken_apart() -> None:
    assert split_label("decoder.3.query") == ("decoder", 3, "query")
    assert split_label("model.decoder.12.outer") == ("model.decoder", 12, "outer")
    assert split_label("tables.source") == ("", None, "tables.source")


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
    optimizer = adam(network)
    with Watch(network, optimizer, every=2) as watch:
        take(loop(network, optimizer), 2)  # type: ignore[arg-type]
    values = watch.history[0].values()
    if folder != Path():
        (folder / f"{how}-{rank}.json").write_text(json.dumps(values))
    return values


def watch_both_ways(rank: int, count: int, folder: Path) -> None:
    for how in ("sharded", "replicated"):
        watched_values(rank, count, folder, how)


@pytest.mark.distributed
@pytest.mark.usefixtures("float64")
def test_several_processes_see_what_one_sees(tmp_path: Path) -> None:
    expected = watched_values(0, 1, Path(), "alone")
    run_in_processes(2, watch_both_ways, tmp_path)
    for rank in range(2):
        replicated = json.loads((tmp_path / f"replicated-{rank}.json").read_text())
        assert replicated == pytest.approx(expected)
        sharded = json.loads((tmp_path / f"sharded-{rank}.json").read_text())
        assert expected.keys() - sharded.keys() == {"condition"}, "the state of a sharded optimiser is not looked into"
        assert sharded == pytest.approx({name: expected[name] for name in sharded})
