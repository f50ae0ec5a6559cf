"""Probes: their values are those of the watched step, and the streams those of its training pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.adam_conditioning import AdamRule
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.watching.probes import StepProbe, StreamProbe, norms_of
from lamina.diagnosis.watching.watch import Watch
from support.small_models import SOURCE, TARGET, small_model
from support.training_loops import adam, loop, take


@pytest.mark.parametrize("kind", ["adam", "adam-fused", "adamw", "radam", "sgd"])
def test_what_is_observed_is_what_happened(kind: str) -> None:
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
    queries = {None: attention.query.weight, "cross-attention": crossing.query.weight}
    outer = model.encoder.layers[0].sublayers[1].outer.weight
    with Watch(model, optimiser, every=3) as watch:
        steps = loop(model, optimiser)
        take(steps, 2)
        gradients = {kind: float(query.grad.norm()) for kind, query in queries.items()}
        before = {kind: query.detach().clone() for kind, query in queries.items()}
        outer_before = outer.detach().clone()
        next(steps)
        observed = {
            each.location.sublayer_kind: each
            for each in watch.history[-1].matrices
            if (each.location.stack, each.location.layer, each.location.matrix) == ("decoder", 2, "query")
        }
        assert observed.keys() == queries.keys()
        for kind_of_sublayer, query in queries.items():
            found = observed[kind_of_sublayer]
            assert found.gradient_norm == pytest.approx(gradients[kind_of_sublayer])
            moved = (query.detach() - before[kind_of_sublayer]).norm().item()
            assert found.update_norm == pytest.approx(moved)
            assert found.relative_update == pytest.approx(moved / float(before[kind_of_sublayer].norm()))
            assert found.learning_rate == (0.1 if kind == "sgd" else 1e-3)
        values = watch.values()
        change = ((outer.detach() - outer_before).norm() / outer_before.norm()).item()
        assert values["update/encoder.1.outer"] == pytest.approx(change)
        assert ("condition" in values) == kind.startswith("adam")
        assert ("is not Adam" in watch.history[-1].no_conditioning) == (not kind.startswith("adam"))
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
    rule = AdamRule(1e-3, (0.9, 0.98), 1e-6)
    found = 0.0
    for gradient, (first, second) in zip(gradients, moments, strict=True):
        at = gradient.double().requires_grad_()
        new_first = 0.9 * first.double() + 0.1 * at
        new_second = 0.98 * second.double() + 0.02 * at.square()
        update = rule.learning_rate * (new_first / (1 - 0.9**3)) / ((new_second / (1 - 0.98**3)).sqrt() + rule.eps)
        (derivative,) = torch.autograd.grad(update.sum(), at)
        derivative = derivative.nan_to_num(rule.learning_rate * 0.1 / (1 - 0.9**3) / rule.eps)
        ever = new_second.detach().flatten(1).any(dim=1)  # rows that never had a gradient are left out
        found += float(derivative[ever].square().sum())
    measured = watch.history[-1].conditioning
    assert measured is not None
    assert measured.fact("κ") == pytest.approx(found**0.5, rel=1e-3)


def test_weights_of_zero_have_no_relative_update_and_frozen_ones_are_left_out() -> None:
    model = small_model("pre-ln", 1)
    zero, frozen = model.encoder.layers[0].sublayers[1].outer.weight, model.encoder.layers[0].sublayers[1].inner.weight
    nn.init.zeros_(zero)
    frozen.requires_grad_(False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = loop(model, optimiser)
    next(steps)
    probe = StepProbe(optimiser, find_layers(model).matrices)
    optimiser.step()
    found = {each.location.matrix: each for each in probe.finish() if each.location.stack == "encoder"}
    assert found["outer"].relative_update is None
    assert found["outer"].update_norm > 0
    assert "inner" not in found


def test_streams_are_those_of_the_training_pass() -> None:
    model = small_model("pre-ln", 3)
    optimiser = adam(model)
    outputs: list[Tensor] = []
    model.encoder.layers[2].register_forward_hook(lambda layer, inputs, state: outputs.append(state.detach()))
    with Watch(model, optimiser, every=1) as watch:
        steps = loop(model, optimiser)
        next(steps)
        with torch.no_grad():  # a validation between two steps is not the training pass
            model(SOURCE[:1], TARGET[:1])
        next(steps)
    encoder, decoder = watch.history[0].streams
    assert (encoder.stack, decoder.stack) == ("encoder", "decoder")
    sizes = encoder.root_mean_squares
    assert sizes[2] == pytest.approx(outputs[0].square().mean().sqrt().item())
    assert len(sizes) == 3
    assert sorted(sizes) == list(sizes), "a pre-LN stream grows"
    assert encoder.largest == pytest.approx(outputs[0].abs().max().item())
    values = watch.history[0].values()
    assert [values[f"stream/encoder.{layer}"] for layer in (1, 2, 3)] == list(sizes)
    (grid, _) = watch.diagnosis()["watched-streams"].grids
    assert grid.location.stack == "encoder"
    assert grid.values == tuple((size,) for size in sizes), "a row for every layer"


def test_a_layer_that_was_left_out_keeps_its_place() -> None:
    layers = [nn.Linear(3, 3) for _ in range(3)]
    probe = StreamProbe({"stack": [[layer] for layer in layers], "unused": [[nn.Linear(3, 3)]]})
    x = torch.ones(2, 3)
    for layer in (layers[0], layers[2]):
        x = layer(x)
    (found,) = probe.finish()
    assert [math.isnan(size) for size in found.root_mean_squares] == [False, True, False]
    assert found.root_mean_squares[2] == pytest.approx(x.detach().square().mean().sqrt().item())
    assert not any(layer._forward_hooks for layer in layers)


def test_norms_of_any_size() -> None:
    """By rows in single precision, and in double precision where squares would be zero in single."""
    torch.manual_seed(1)
    tensors = [scale * torch.randn(30, 40) for scale in (1.0, 1e-8, 1e-25)] + [torch.zeros(3, 3), torch.ones(5)]
    expected = [each.double().norm().item() for each in tensors]
    assert norms_of([partial(torch.clone, each) for each in tensors]) == pytest.approx(expected, rel=1e-6)
    assert math.isnan(norms_of([lambda: torch.tensor([[1.0, math.nan]])])[0])
