"""A watch around anybody's loop: nothing changes, what is noted is right, and trouble is told early."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lamina.diagnosis.thresholds import VerdictOptions
from lamina.diagnosis.watching.band import Band, BandOptions
from lamina.diagnosis.watching.history import diagnose_history
from lamina.diagnosis.watching.step_probe import StepSizes
from lamina.diagnosis.watching.stream_probe import StreamProbe, StreamSizes
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import lamina
from lamina import UserError, residual
from lamina.diagnosis.measures.adam_conditioning import Rule
from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.results import Diagnosis, Verdict
from lamina.diagnosis.watching.observation import Departure, Look, Vanished, read_looks, write_looks
from lamina.diagnosis.watching.watch import Watch
from lamina.model.encoder_decoder import EncoderDecoder
from support.processes import run_in_processes
from support.small_models import LABELS, SOURCE, TARGET, small_model

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


def loop(model: EncoderDecoder, optimiser: torch.optim.Optimizer, accumulate: int = 1) -> Iterator[Tensor]:
    """A plain loop of one's own; yields before every step, so that a test can meddle."""
    while True:
        for _ in range(accumulate):
            loss = model(SOURCE, TARGET, labels=LABELS).smoothed.mean()
            loss.backward()
        yield loss.detach()
        optimiser.step()
        optimiser.zero_grad()


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
        optimiser = adam(model)
        watch: AbstractContextManager[Any] = Watch(model, optimiser, every=2) if watched else nullcontext()
        with watch:
            take(loop(model, optimiser, accumulate=2), 5)
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
    optimiser = makers[kind]()
    attention, crossing, _ = model.decoder.layers[1].sublayers
    queries = {"query": attention.query.weight, "cross-query": crossing.query.weight}
    outer = model.encoder.layers[0].sublayers[1].outer.weight
    with Watch(model, optimiser, every=3) as watch:
        steps = loop(model, optimiser)
        take(steps, 2)
        gradients = {name: float(query.grad.norm()) for name, query in queries.items()}
        before = {name: query.detach().clone() for name, query in queries.items()}
        outer_before = outer.detach().clone()
        next(steps)
        values = watch.values()
        for name, query in queries.items():
            assert values[f"gradient/decoder.2.{name}"] == pytest.approx(gradients[name])
            moved = (query.detach() - before[name]).norm().item()
            assert watch.history[-1].sizes.moved[f"decoder.2.{name}"] == pytest.approx(moved)
            assert values[f"update/decoder.2.{name}"] == pytest.approx(moved / float(before[name].norm()))
        change = ((outer.detach() - outer_before).norm() / outer_before.norm()).item()
        assert values["update/encoder.1.outer"] == pytest.approx(change)
        assert ("condition" in values) == kind.startswith("adam")
        next(steps)
        assert watch.values() == {}, "the fourth step was not watched"


def test_condition_is_the_derivative_of_the_step() -> None:
    model = small_model("pre-ln", 1)
    optimiser = adam(model, eps=1e-6)
    with Watch(model, optimiser, every=1) as watch:
        steps = loop(model, optimiser)
        take(steps, 2)
        gradients = [p.grad.clone() for p in model.parameters() if p.dim() >= 2 and p.grad is not None]
        states = [optimiser.state[p] for p in model.parameters() if p.dim() >= 2 and p.grad is not None]
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
    optimiser = adam(model)
    seen: list[Tensor] = []
    model.encoder.layers[2].register_forward_hook(lambda layer, inputs, state: seen.append(state.detach()))
    with Watch(model, optimiser, every=1) as watch:
        steps = loop(model, optimiser)
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
    values = watch.history[0].values()
    assert [values[f"stream/encoder.{layer}"] for layer in (1, 2, 3)] == list(streams.sizes["encoder"])
    (grid, _) = watch.diagnosis()["watched-streams"].grids
    assert grid.label == "encoder"
    assert grid.values == tuple((size,) for size in streams.sizes["encoder"]), "a row for every layer"


def test_a_layer_that_was_left_out_keeps_its_place() -> None:
    layers = [nn.Linear(3, 3) for _ in range(3)]
    probe = StreamProbe({"stack": [[layer] for layer in layers]})
    x = torch.ones(2, 3)
    for layer in (layers[0], layers[2]):
        x = layer(x)
    (sizes,) = probe.finish().sizes.values()
    assert [math.isnan(size) for size in sizes] == [False, True, False]
    assert sizes[2] == pytest.approx(x.detach().square().mean().sqrt().item())


def test_a_foreign_model_is_watched_layer_by_layer() -> None:
    torch.manual_seed(0)
    model, x = Foreign(), torch.randn(2, 5, 8)
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
    assert len(watch.history[-1].streams.sizes["encoder"]) == 3


def test_cross_attention_of_a_foreign_decoder_is_told_apart() -> None:
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2)
    optimiser = adam(model)
    with Watch(model, optimiser, every=1) as watch:
        model(torch.randn(2, 5, 8), torch.randn(2, 4, 8)).square().mean().backward()
        own, crossing = model.layers[1].self_attn, model.layers[1].multihead_attn
        expected = [float(each.in_proj_weight.grad.chunk(3)[2].norm()) for each in (own, crossing)]
        optimiser.step()
    values = watch.values()
    assert [values[f"gradient/stack.2.{kind}"] for kind in ("value", "cross-value")] == pytest.approx(expected)
    lines = {line.label for line in watch.diagnosis()["watched-gradients"].measured}
    assert {"stack value", "stack cross-value", "stack outer"} <= lines


class Mixing(nn.Module):
    """A layer whose matrix has no name that anybody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.mixer = nn.ModuleDict({"dense": nn.Linear(8, 8)})

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mixer["dense"](x)


def test_a_matrix_that_nobody_knows_has_its_layer_all_the_same() -> None:
    model = nn.Sequential(*(Mixing() for _ in range(3)))
    optimiser = adam(model)
    with Watch(model, optimiser, every=1) as watch:
        model(torch.randn(2, 8)).square().mean().backward()
        optimiser.step()
    updates = watch.diagnosis()["watched-updates"]
    assert [line.label for line in updates.measured] == ["stack mixer.dense"]
    assert [len(grid.values) for grid in updates.grids] == [3]
    assert watch.values().keys() >= {f"update/stack.{layer}.mixer.dense" for layer in (1, 2, 3)}
    assert {each.key for each in watch.diagnosis().skipped} == {"matrix-updates"}


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
    measure = watch.diagnosis()["matrix-updates"]
    lines = {line.label: line for line in measure.measured}
    expected = [each / most for each, most in zip(mean, largest, strict=True)]
    for what in ("gradient", "update"):  # of plain descent they are in proportion
        assert lines[f"{what} encoder value"].y == pytest.approx(expected, rel=1e-3)
    assert lines["gradient encoder value"].x == (1, 2, 3)
    assert {"update decoder query", "update decoder cross-query"} <= lines.keys()
    assert not any("inner" in label or "table" in label for label in lines)


def test_updates_that_leave_their_band_are_told_once_and_then_judged() -> None:
    """The gradients of the encoder grow tenfold, as before a divergence, at the same rate."""
    model = small_model("post-ln")
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    told: list[Any] = []
    with Watch(model, optimiser, every=2, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 40)
        assert told == [], "forty quiet steps"
        for _ in range(4):
            for parameter in model.encoder.parameters():
                assert parameter.grad is not None
                parameter.grad *= 10
            next(steps)
    (departure,) = told
    assert isinstance(departure, Departure)
    assert departure.step == 42
    assert departure.matrix.startswith("encoder.")
    assert departure.times > 5
    assert departure.matrix in str(departure)
    assert 0.2 <= departure.outside / departure.total < 1
    verdict = next(each for each in watch.diagnosis().verdicts if each.kind == "unstable")
    assert verdict.severity == "warning"
    assert verdict.where == "step 42"
    assert verdict.advice


@pytest.mark.parametrize(("share", "warnings"), [(0.2, 0), (0.01, 1)])
def test_a_single_matrix_that_leaves_its_band_is_no_trouble(share: float, warnings: int) -> None:
    model = small_model("post-ln")
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    told: list[Any] = []
    options = DiagnoseOptions(band=BandOptions(share=share))
    with Watch(model, optimiser, every=2, options=options, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 40)
        for _ in range(4):
            model.encoder.layers[1].sublayers[1].outer.weight.grad *= 10
            next(steps)
    assert len(told) == warnings
    assert any(each.outside for each in watch.history), "it is noted all the same"
    verdict = next(each for each in watch.diagnosis().verdicts if each.kind == "unstable")
    assert verdict.severity == ("warning" if warnings else "fine")
    assert warnings or "but for a few of them at" in verdict.sentence


def test_a_gradient_that_vanishes_is_told_once_and_then_judged() -> None:
    model = small_model("pre-ln")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    told: list[Any] = []
    lowest = list(model.decoder.layers[0].parameters())
    with Watch(model, optimiser, every=1, on_warning=told.append) as watch:
        for step, _ in zip(range(1, 10), loop(model, optimiser), strict=False):
            if step > 1 and watch.step < 6:  # of steps 1 to 5; the gradient of the step to come is there
                assert bool(told) == (watch.step >= 3)
            if 3 <= step <= 5:
                for parameter in lowest:
                    assert parameter.grad is not None
                    parameter.grad *= 1e-4
    (vanished,) = told
    assert isinstance(vanished, Vanished)
    assert (vanished.step, vanished.stack, vanished.layer, vanished.last) == (
        3,
        "decoder",
        1,
        len(model.decoder.layers),
    )
    assert "step 3: the gradient of decoder layer 1 is" in str(vanished)
    diagnosis = watch.diagnosis()
    assert [each.label for each in diagnosis["watched-weakest-layer"].measured] == ["encoder", "decoder"]
    (judged,) = (each for each in diagnosis.verdicts if each.kind == "vanishing")
    assert judged.severity == "warning"
    shares = diagnosis["watched-weakest-layer"].measured[-1].y
    assert judged.value == min(shares)
    assert vanished.share == shares[2]
    assert "in 8 watched steps, below 0.010 in 3 of them, first at step 3; it has come back since" in judged.sentence


def look(step: int, **gradients: float) -> Look:
    norms = {name.replace("_", "."): norm for name, norm in gradients.items()}
    sizes = StepSizes(gradients=norms, moved=norms, updates=norms, rates=dict.fromkeys(norms, 1.0), condition=None)
    return Look(step=step, sizes=sizes, streams=StreamSizes(sizes={}, peaks={}))


HOMES = {f"{stack}.{layer}.outer": (stack, layer - 1, "outer") for stack in ("encoder", "decoder") for layer in (1, 2)}


def vanishing(*looks: Look, homes: dict[str, tuple[str, int, str]] = HOMES) -> list[Verdict]:
    options = VerdictOptions()
    diagnosis = diagnose_history(looks, homes, name="", model="", schemes=(), options=options)
    return [each for each in diagnosis.verdicts if each.kind == "vanishing"]


def test_a_gradient_that_stays_away_is_a_failure() -> None:
    even = {"encoder_1_outer": 1e-6, "encoder_2_outer": 1.0, "decoder_2_outer": 1.0}
    (good,) = vanishing(look(1, **even, decoder_1_outer=0.5))
    assert (good.severity, good.where, good.value) == ("fine", "decoder", 0.5)
    (bad,) = vanishing(look(1, **even, decoder_1_outer=0.5), look(2, **even, decoder_1_outer=0.005))
    assert bad.severity == "failure"
    assert bad.sentence.endswith("first at step 2; it still is")
    (lost,) = vanishing(look(1, **even, decoder_1_outer=0.005), look(2, **even, decoder_1_outer=math.nan))
    assert lost.sentence.endswith("it still is"), "what is no number has not come back"
    assert vanishing(look(1, **even, decoder_1_outer=math.nan)) == []


def test_layers_that_were_left_out_have_not_vanished() -> None:
    even = {"encoder_1_outer": 1e-6, "encoder_2_outer": 1.0, "decoder_2_outer": 1.0}
    assert vanishing(look(1, **even, decoder_1_outer=0.0)) == [], "dropped in this step"
    assert vanishing(look(1, encoder_1_outer=1e-6, encoder_2_outer=1.0)) == [], "a frozen decoder is not judged"


def test_the_stack_that_attends_to_another_is_judged_wherever_it_stands() -> None:
    homes = {
        "decoder.1.cross-query": ("decoder", 0, "cross-query"),
        "decoder.2.cross-query": ("decoder", 1, "cross-query"),
        "encoder.1.outer": ("encoder", 0, "outer"),
        "encoder.2.outer": ("encoder", 1, "outer"),
    }
    norms = {
        "decoder.1.cross-query": 0.001,
        "decoder.2.cross-query": 1.0,
        "encoder.1.outer": 1.0,
        "encoder.2.outer": 1.0,
    }
    sizes = StepSizes(gradients=norms, moved=norms, updates=norms, rates=dict.fromkeys(norms, 1.0), condition=None)
    seen = Look(step=1, sizes=sizes, streams=StreamSizes(sizes={}, peaks={}))
    (found,) = vanishing(seen, homes=homes)
    assert (found.where, found.severity) == ("decoder", "failure")


def test_a_watch_that_goes_on_does_not_tell_again_what_it_told() -> None:
    def trained(history: list[Look], step: int, told: list[Any]) -> list[Look]:
        model = small_model("pre-ln")
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
        with Watch(model, optimiser, every=1, step=step, history=history, on_warning=told.append) as watch:
            for _, _ in zip(range(3), loop(model, optimiser), strict=False):
                for parameter in model.decoder.layers[0].parameters():
                    assert parameter.grad is not None
                    parameter.grad *= 1e-4
        return watch.history

    first, second = list[Any](), list[Any]()
    seen = trained([], 0, first)
    longer = trained(seen, len(seen), second)
    assert (len(first), len(second)) == (1, 0)
    assert len(longer) == 2 * len(seen)


def test_a_schedule_does_not_look_like_trouble() -> None:
    model = small_model("pre-ln")
    optimiser = adam(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Watch(model, optimiser, every=2):
            steps = loop(model, optimiser)
            for step in range(1, 60):
                optimiser.param_groups[0]["lr"] = 1e-4 * min(step / 20, (20 / step) ** 0.5)
                next(steps)


def test_warnings_are_the_default() -> None:
    model = small_model("pre-ln")
    watch = Watch(model, adam(model))
    with pytest.warns(UserWarning, match="step 3: the update of decoder.1.query is 7 times its usual size"):
        watch.on_warning(Departure(3, "decoder.1.query", 7.0, 1, 10))


def test_a_diagnosis_of_the_history_survives_its_file(tmp_path: Path) -> None:
    model = small_model("resi-dual")
    optimiser = adam(model)
    with Watch(model, optimiser, every=2, on_warning=silent) as watch:
        take(loop(model, optimiser), 6)
    diagnosis = watch.diagnosis("mine")
    assert diagnosis.step == 6
    assert diagnosis.schemes == ("resi-dual",)
    updates = diagnosis["watched-updates"]
    query = next(each for each in updates.measured if each.label == "decoder query")
    assert query.x == (2.0, 4.0, 6.0)
    assert {grid.label for grid in updates.grids} == {"encoder", "decoder"}
    assert all(len(row) == 3 for grid in updates.grids for row in grid.values)
    assert diagnosis["watched-condition"].measured[0].y[0] > 0
    assert {verdict.kind for verdict in diagnosis.verdicts} == {"unstable", "vanishing", "conditioning", "overflow"}
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
    assert watch.diagnosis().skipped[0].reason == "no step was watched: fewer steps than `every` were taken"
    with Watch(model, optimiser, every=100):
        assert hooks() == 2
        take(loop(model, optimiser), 3)
        assert hooks() == 2, "only the optimiser's step is looked at between two looks"
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


def test_a_step_that_moves_nothing_and_a_number_that_is_none() -> None:
    model = small_model("pre-ln")
    optimiser = adam(model)
    told: list[Departure] = []
    with Watch(model, optimiser, every=1, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 3)
        optimiser.param_groups[0]["lr"] = 0.0
        next(steps)
        assert watch.values()["update/encoder.1.query"] == 0
        optimiser.param_groups[0]["lr"] = 1e-3
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


def test_a_watch_that_goes_on_knows_what_it_saw(tmp_path: Path) -> None:
    """Two watches, the second with the first one's file, see and tell what one alone does."""

    def go_on(watch: Watch, steps: range) -> None:
        """From the thirtieth step on the encoder gets ten times its gradient."""
        assert isinstance(watch.model, EncoderDecoder)
        watch.optimiser.zero_grad()
        training = loop(watch.model, watch.optimiser)
        next(training)
        with watch:
            for step in steps:
                if step >= 30:
                    for parameter in watch.model.encoder.parameters():
                        assert parameter.grad is not None
                        parameter.grad *= 10
                next(training)

    def begin(told: list[Departure]) -> Watch:
        torch.manual_seed(0)
        model = small_model("post-ln")
        return Watch(model, torch.optim.SGD(model.parameters(), lr=1e-3), every=2, on_warning=told.append)

    told: list[Departure] = []
    alone = begin(told)
    go_on(alone, range(1, 37))
    assert [each.step for each in told] == [30]

    told_in_parts: list[Departure] = []
    first = begin(told_in_parts)
    go_on(first, range(1, 29))
    write_looks(tmp_path / "looks.json", first.history)
    seen = read_looks(tmp_path / "looks.json", until=28)
    again = Watch(first.model, first.optimiser, every=2, step=28, history=seen, on_warning=told_in_parts.append)
    go_on(again, range(29, 37))
    assert again.history == alone.history
    assert told_in_parts == told
    assert again.diagnosis() == alone.diagnosis()
    assert [look.step for look in read_looks(tmp_path / "looks.json", until=11)] == [2, 4, 6, 8, 10]


def test_looks_survive_their_file_whatever_was_seen(tmp_path: Path) -> None:
    sizes = StepSizes(
        gradients={"a": math.inf}, moved={"a": 0.0}, updates={}, rates={"a": 1e-3}, condition=None, unconditioned="no"
    )
    look = Look(
        step=3, sizes=sizes, streams=StreamSizes(sizes={"s": (1.0, math.nan)}, peaks={}), outside={"a": math.inf}
    )
    file = tmp_path / "looks.json"
    assert read_looks(file, until=3) == []
    write_looks(file, [look])
    assert str(read_looks(file, until=3)) == str([look]), "not a number is not equal to itself"
    file.write_text('{"looks": 1}')
    with pytest.raises(UserError, match="damaged, or of another version"):
        read_looks(file, until=3)


def test_a_loop_of_ones_own_ends_in_a_page(tmp_path: Path) -> None:
    model = Foreign()
    optimiser = adam(model)
    with lamina.watch(model, optimiser, every=3) as watch:
        for _ in range(10):
            model(torch.randn(4, 5, 8)).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
    report = watch.report("mine")
    assert report.verdicts == watch.diagnosis().verdicts
    assert {verdict.kind for verdict in report.verdicts} == {"unstable", "vanishing", "conditioning", "overflow"}
    for ending in ("html", "md", "json"):
        report.save(tmp_path / f"watched.{ending}")
    page = unescape((tmp_path / "watched.html").read_text())
    assert page.startswith("<!doctype html>")
    for text in (page, (tmp_path / "watched.md").read_text()):
        assert "Diagnosis: mine" in text
        assert "watched at 3 steps, last at step 9" in text
        assert "batch" not in text.partition("Verdicts")[0], "it was watched, not shown a batch"
        for measure in report.diagnosis.measures:
            assert measure.title in text
    assert page.count('role="img"') >= 6
    assert Diagnosis.read(tmp_path / "watched.json") == report.diagnosis


def test_a_watch_that_saw_nothing_has_a_page_too() -> None:
    model = small_model("pre-ln")
    text = str(lamina.watch(model, adam(model)).report())
    assert "never watched" in text
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
def test_several_processes_see_what_one_sees(tmp_path: Path) -> None:
    expected = watched_values(0, 1, Path(), "alone")
    run_in_processes(2, watch_both_ways, tmp_path)
    for rank in range(2):
        replicated = json.loads((tmp_path / f"replicated-{rank}.json").read_text())
        assert replicated == pytest.approx(expected)
        sharded = json.loads((tmp_path / f"sharded-{rank}.json").read_text())
        assert expected.keys() - sharded.keys() == {"condition"}, "the state of a sharded optimiser is not looked into"
        assert sharded == pytest.approx({name: expected[name] for name in sharded})
