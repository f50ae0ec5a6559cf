"""The ranges of modules, in the order of the computation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lamina.diagnosis.recording.ranges import RangeRecorder, first_floating, largest_value
from support.faulty_models import IDS, WordModel, word_loss


def record(model: WordModel) -> tuple[RangeRecorder, torch.Tensor]:
    with RangeRecorder(model, {"stack": [[layer] for layer in model.layers]}) as recorder:
        loss = word_loss(model(IDS), IDS)
        loss.backward()
    return recorder, loss


def test_ranges_agree_with_plain_hooks() -> None:
    model = WordModel(dropout=0.0)
    outputs: dict[str, float] = {}
    gradients: dict[str, float] = {}
    for path in ("layers.1.linear1", "layers.3", "head"):
        module = model.get_submodule(path)
        module.register_forward_hook(lambda m, a, y, path=path: outputs.update({path: y.abs().max().item()}))
        module.register_full_backward_hook(lambda m, a, g, path=path: gradients.update({path: g[0].abs().max().item()}))
    recorder, loss = record(model)
    found = {each.path: each for each in recorder.ranges}
    for path, output in outputs.items():
        assert found[path].output == pytest.approx(output)
        assert found[path].gradient == pytest.approx(gradients[path])
    assert (found["layers.1.linear1"].stack, found["layers.1.linear1"].layer) == ("stack", 1)
    assert found["embedding"].input is None, "word ids have no range"
    assert recorder.first_non_finite(loss) is None
    assert not any(module._forward_hooks for module in nn.ModuleList([model.layers[0]]).modules()), "hooks are removed"


def test_the_first_module_in_forward_order_is_named() -> None:
    model = WordModel()
    for number in (2, 3):
        model.layers[number].linear1.register_forward_hook(lambda m, a, y: y * math.inf)
    recorder, loss = record(model)
    found = recorder.first_non_finite(loss)
    assert found is not None
    assert (found.kind, found.location.module) == ("output", "layers.2.linear1")
    assert found.parameters == pytest.approx(
        max(each.abs().max().item() for each in model.layers[2].linear1.parameters())
    )
    assert found.input is not None
    assert math.isfinite(found.input)


def test_a_gradient_of_a_parameter_alone() -> None:
    model = WordModel()
    model.layers[1].linear1.weight.register_hook(lambda gradient: gradient * math.nan)
    recorder, loss = record(model)
    found = recorder.first_non_finite(loss)
    assert found is not None
    assert (found.kind, found.location.module) == ("parameter gradient", "layers.1.linear1")


def test_the_first_tensor_of_floating_point_counts() -> None:
    x = torch.tensor([1.0, -3.0])
    assert first_floating((torch.tensor([1]), {"a": None, "b": [x]})) is x
    assert first_floating("text") is None
    assert first_floating(torch.empty(0)) is None
    assert largest_value(x).item() == 3
    assert math.isnan(largest_value(torch.tensor([math.nan, 1.0])).item())
