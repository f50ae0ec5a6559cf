"""Packed weights: the same outputs, the model itself unchanged, and packed only where it is possible and worth it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode

from lamina.generate import packing
from lamina.generate.int8 import quantise
from lamina.generate.packing import ENOUGH, PackedLinear, Packing, can_be_packed, pack
from support.ending_models import language_model, outputs, tokens, translator

pytestmark = pytest.mark.skipif(not can_be_packed(translator().float()), reason="this build of torch has no oneDNN")


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("kind", [translator, language_model])
def test_outputs_are_those_of_the_model(kind: type, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = kind().float().eval()
    monkeypatch.setattr(packing, "ENOUGH", 10**9)
    expected = outputs(model, method=method)
    monkeypatch.setattr(packing, "ENOUGH", 1)
    found = outputs(model, method=method)
    assert tokens(found) == tokens(expected)
    for own, other in zip(found, expected, strict=True):
        assert [each.score for each in own] == pytest.approx([each.score for each in other], rel=1e-4)


def test_the_model_stays_as_it_is_and_shares_its_parameters() -> None:
    model = translator().float().train()
    names = {name: type(each) for name, each in model.named_modules()}
    packed = pack(model)
    assert {name: type(each) for name, each in model.named_modules()} == names
    assert sum(isinstance(each, PackedLinear) for each in packed.modules()) == 1 + sum(
        type(each) is nn.Linear for each in model.modules()
    )
    packed.eval()
    assert all(each.training for each in model.modules())
    shared = dict(model.named_parameters())
    assert all(shared[name] is each for name, each in packed.named_parameters() if name in shared)


def test_every_linear_layer_gives_the_same_values() -> None:
    linear = nn.Linear(24, 40)
    for rows in (1, 3, 100):
        x = torch.randn(rows, 24)
        assert torch.allclose(PackedLinear(linear.weight, linear.bias)(x), linear(x), atol=1e-5)


def test_weights_are_packed_once_there_is_enough_to_decode() -> None:
    model = translator().float()
    packing = Packing(model)
    packing.count(ENOUGH - 1)
    assert packing.model() is model
    packing.count(1)
    packed = packing.model()
    assert packed is not model
    assert packing.model() is packed


def test_not_where_it_is_not_possible_or_something_observes() -> None:
    model = translator().float()
    assert can_be_packed(model)
    assert not can_be_packed(translator().double())
    assert not can_be_packed(translator().float().to("meta"))
    assert not can_be_packed(quantise(model))
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_be_packed(model)
    with BaseTorchFunctionMode():
        assert not can_be_packed(model)
    hook = model.decoder.layers[0].register_forward_hook(lambda *_: None)
    assert not can_be_packed(model)
    hook.remove()
    assert can_be_packed(model)
