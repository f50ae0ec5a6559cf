from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.base import Evidence, ModelStructure
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient
from lamina.diagnosis.measures.reading import placements
from lamina.diagnosis.recording.layers import find_layers
from support.recorded import fact, gradients, line, recorded
from support.small_models import LABELS, SOURCE, TARGET, small_model


def test_gradients_are_averaged_before_the_norm() -> None:
    expected = ExpectedGradient()
    for first in ([[3.0, 0.0]], [[-3.0, 8.0]]):
        expected.add(gradients(encoder_0_query=torch.tensor(first), encoder_1_query=torch.ones(1, 2)))
    found = GradientByLayer().take(Evidence(gradients=expected.mean()))
    assert line(found, stack="encoder", matrix="query") == pytest.approx((4.0, math.sqrt(2)))
    assert found.measured[0].x == (1, 2)
    concluded = GradientByLayer().conclude(found)
    assert fact(concluded, "first/last", stack="encoder", matrix="query") == pytest.approx(4 / math.sqrt(2))
    assert fact(concluded, "slope", stack="encoder", matrix="query") == pytest.approx(math.log(math.sqrt(2) / 4))


def test_it_agrees_with_the_parameters() -> None:
    model = small_model("post-ln", 3)

    def run(model: nn.Module) -> Tensor:
        return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()

    record = recorded(model, run)
    structure = ModelStructure("", placements=placements(record.stacks))
    found = GradientByLayer().take(Evidence(structure=structure, gradients=record.gradients))
    run(model).backward()
    direct = [part.matrices[-1].weight.grad.norm().item() for part in model.decoder.entries if part.place.last]
    assert line(found, stack="decoder", matrix="outer") == pytest.approx(tuple(direct), rel=1e-5)
    predicted = line(found, role="predicted", quantity="post-LN", stack="decoder", matrix="outer")
    assert predicted[0] == pytest.approx(direct[-1] * 2 / 3)
    kinds = {each.name.kind for each in find_layers(model).matrices if each.name.layer is not None}
    assert kinds >= {"query", "key", "value", "output", "inner", "outer"}
