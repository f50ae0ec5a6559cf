"""The measure `layer-structure`."""

from __future__ import annotations

from types import MethodType

import pytest
from torch import Tensor, nn

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.layer_structure import FINAL_NORM, INPUT_TO_BRANCHES, PRE_NORM, LayerStructure
from lamina.studies.faults.models import PlainLayer, PostNormLayer, Trial, plain_trial
from support.recorded import fact, line, recorded, take


def without_residual(layer: PlainLayer, x: Tensor) -> Tensor:
    x = layer.attention(layer.norm1(x))
    return x + layer.outer(layer.inner(layer.norm2(x)).relu())


def twice_residual(layer: PlainLayer, x: Tensor) -> Tensor:
    return x + PlainLayer.forward(layer, x)


def structure(trial: Trial) -> Measurement:
    batch = trial.batch(0)
    return take(LayerStructure, recorded(trial.model, lambda model: trial.loss(model(*batch), batch)))


def test_healthy_layers_are_alike() -> None:
    found = structure(plain_trial())
    assert line(found, quantity="residual sums") == (2.0,) * 6
    assert line(found, quantity="norms") == (2.0,) * 6
    assert line(found, quantity="stream added to itself") == (0.0,) * 6
    assert (fact(found, FINAL_NORM), fact(found, PRE_NORM)) == (1.0, 1.0)
    assert 0.01 < fact(found, INPUT_TO_BRANCHES) < 3


@pytest.mark.parametrize(
    ("edit", "quantity", "expected"),
    [
        (lambda layer: setattr(layer, "forward", MethodType(without_residual, layer)), "residual sums", 0.0),
        (lambda layer: setattr(layer, "forward", MethodType(twice_residual, layer)), "stream added to itself", 1.0),
        (lambda layer: setattr(layer, "norm2", nn.Identity()), "norms", 1.0),
    ],
)
def test_a_layer_that_differs(edit: object, quantity: str, expected: float) -> None:
    trial = plain_trial()
    edit(trial.layers[2])  # type: ignore[operator]
    assert line(structure(trial), quantity=quantity)[2] == expected


def test_post_norm() -> None:
    trial = plain_trial()
    for layer in trial.layers:
        layer.__class__ = PostNormLayer
    found = structure(trial)
    assert fact(found, PRE_NORM) == 0.0
    assert not found.find_facts(INPUT_TO_BRANCHES)
