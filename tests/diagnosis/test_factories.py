"""Functions of a user that build models, by seed, number of layers and width."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina
from lamina.diagnosis.factories import as_factory, as_width_factory, widths_below
from lamina.diagnosis.subject import subject_of
from lamina.errors import UserError

X = torch.randn(8, 5, 16, generator=torch.Generator().manual_seed(1))
TOKENS = torch.randint(0, 20, (4, 6), generator=torch.Generator().manual_seed(1))


def encoder(num_layers: int = 2, dim: int = 16) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def test_factories_take_a_seed_a_depth_both_or_nothing() -> None:
    for make in (encoder, lambda: encoder(3)):
        factory, any_depth = as_factory(make)
        assert any_depth == (make is encoder)
        assert torch.equal(factory(1, None).layers[0].linear1.weight, factory(1, None).layers[0].linear1.weight)
        assert not torch.equal(factory(1, None).layers[0].linear1.weight, factory(2, None).layers[0].linear1.weight)
    factory, any_depth = as_factory(lambda seed, num_layers=2: encoder(num_layers))
    assert any_depth
    assert len(factory(1, 5).layers) == 5


def test_a_depth_without_a_default() -> None:
    with pytest.raises(UserError, match=r"num_layers of the factory needs a default.*def make\(seed, num_layers=6\)"):
        subject_of(lambda seed, num_layers: encoder(num_layers), X)


def test_a_width_is_passed_on_and_none_is_needed() -> None:
    assert as_width_factory(encoder) == (None, None)
    of_width, width = as_width_factory(lambda seed, width=16: encoder(dim=width))
    assert width == 16
    assert of_width is not None
    assert of_width(8).layers[0].linear1.in_features == 8
    with pytest.raises(UserError, match=r"width of the factory needs a number as its default.*width=512"):
        subject_of(lambda seed, width: encoder(dim=width), X)


def test_widths_that_the_heads_divide() -> None:
    assert widths_below(64) == (16, 32, 64)
    assert widths_below(64, multiple_of=32) == (32, 64)
    assert widths_below(3) == (1, 3)


def test_a_factory_of_widths_gets_the_coordinate_check() -> None:
    def make(seed: int, width: int = 16) -> nn.Module:
        return nn.Sequential(nn.Embedding(20, width), encoder(dim=width))

    found = lamina.diagnose(make, TOKENS, seeds=1)["coordinate-check-by-width"]
    assert {each.x for each in found.measured} == {(4.0, 8.0, 16.0)}
    with pytest.raises(UserError, match=r"needs a config, or a factory that takes width"):
        lamina.diagnose(lambda: encoder(), X, seeds=1)["coordinate-check-by-width"]
