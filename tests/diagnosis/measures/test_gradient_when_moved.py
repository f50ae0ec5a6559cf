"""The gradient after the weights have moved: against a plain loop, and with the weights restored."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.gradient_when_moved import MOVES, GradientWhenMoved
from lamina.diagnosis.recording.passes import Pass
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from support.small_models import SMALL

WIDE: dict[str, Any] = SMALL | {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 4}
X = torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(1))


def encoder(num_layers: int) -> nn.TransformerEncoder:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def run(model: nn.Module) -> Tensor:
    return model(X)[..., 0].square().mean()  # type: ignore[no-any-return]


def measured(model: nn.Module, run: Pass) -> Measurement:
    return GradientWhenMoved().take(Evidence(model=model, passes=[run]))


def test_against_a_plain_loop() -> None:
    model = encoder(3)
    state = torch.get_rng_state()
    found = measured(model, run)
    (line,) = found.measured
    assert (line.location.stack, line.x) == ("stack", MOVES)
    for move, share in ((0.0, found.facts[0].value), *zip(line.x, line.y, strict=True)):
        moved = copy.deepcopy(model)
        torch.set_rng_state(state)
        with torch.no_grad():
            for parameter in moved.parameters():
                if parameter.dim() > 1:
                    parameter += move * (2 * torch.randint(0, 2, parameter.shape, dtype=torch.int8) - 1)
        run(moved).backward()
        norms = [
            sum(each.grad.square().sum() for each in layer.parameters() if each.dim() > 1 and each.grad is not None)
            for layer in moved.layers
        ]
        first, second, last = (float(norm) ** 0.5 for norm in norms)
        assert share == pytest.approx(min(first, second) / last, rel=1e-4)


def test_weights_and_gradients_are_left_as_they_were() -> None:
    model = encoder(2)
    run(model).backward()
    before = {name: (each.detach().clone(), each.grad) for name, each in model.named_parameters()}
    measured(model, run)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name][0])
        assert parameter.grad is before[name][1]


def test_frozen_weights_stay_where_they_are() -> None:
    model = encoder(3)
    frozen = model.layers[0].linear1.weight
    frozen.requires_grad_(False)
    before, seen = frozen.clone(), list[bool]()

    def looking(model: nn.Module) -> Tensor:
        seen.append(torch.equal(frozen, before))
        return run(model)

    measured(model, looking)
    assert seen == [True] * (1 + len(MOVES))


def test_a_layer_that_is_dropped_now_and_then_leaves_a_gap() -> None:
    model, passes = encoder(2), list[int]()

    def dropping(model: nn.Module) -> Tensor:
        passes.append(len(passes))
        layers = list(model.layers) if len(passes) != 3 else [model.layers[1]]  # type: ignore[arg-type]
        x = X
        for layer in layers:
            x = layer(x)
        return x[..., 0].square().mean()

    (line,) = measured(model, dropping).measured
    assert [share == share for share in line.y] == [True, False, True, True]


def test_weights_are_put_back_after_a_failure() -> None:
    model = encoder(2)
    before = [each.detach().clone() for each in model.parameters()]

    def fail(model: nn.Module) -> Tensor:
        if not all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True)):
            raise RuntimeError("out of memory")
        return run(model)

    with pytest.raises(NotMeasurable, match=r"with all weights moved by 0\.01 it raised RuntimeError: out of memory"):
        measured(model, fail)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))


def shares(scheme: str) -> dict[str, tuple[float, ...]]:
    torch.manual_seed(1)
    model = Transformer.build(ModelOptions(kind="encoder-decoder", residual=scheme, num_layers=12, **WIDE))
    source, target, labels = torch.randint(3, 40, (3, 8, 12))
    model.calibrate(source, target)  # type: ignore[operator]
    found = measured(model, lambda model: model(source, target, labels=labels).smoothed.mean())
    return {str(line.location.stack): line.y for line in found.measured}


@pytest.mark.parametrize("scheme", ["admin", "deep-norm"])
def test_norms_in_the_stream_lose_the_gradient_at_larger_distances(scheme: str) -> None:
    """Both start with as even a gradient as pre-LN's."""
    near, *_, far = shares(scheme)["decoder"]
    assert near > 0.3
    assert far < 0.05


def test_pre_ln_keeps_the_gradient_at_every_distance() -> None:
    assert all(share > 0.3 for line in shares("pre-ln").values() for share in line)


def test_what_is_not_finite_is_an_explosion() -> None:
    class Exploding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = x + layer(x)
            return torch.exp(1000 * x.square())

    model = Exploding()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    (line,) = measured(model, lambda model: model(0.05 * X).mean()).measured
    assert line.y[-1] == math.inf


def test_one_layer_has_nothing_to_compare() -> None:
    with pytest.raises(NotMeasurable, match="no stack has two layers"):
        measured(
            Transformer.build(ModelOptions(kind="encoder", num_layers=1, **WIDE)),
            lambda model: model(torch.randint(3, 40, (2, 5)), labels=torch.randint(3, 40, (2, 5))).smoothed.mean(),
        )
