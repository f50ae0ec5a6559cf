"""The base of optimisers: when the fused kernel is asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.training.optimisers import OptimiserOptions, base, build_optimiser
from lamina.training.optimisers.base import Optimiser, use_fused
from support.small_models import small_model


def test_the_fused_kernel_where_there_is_one() -> None:
    model = small_model("post-ln")
    for name in ("adam", "adamw", "sgd"):
        assert build_optimiser(OptimiserOptions(name=name), model).defaults["fused"]
    assert not build_optimiser(OptimiserOptions(), model.to("meta")).defaults["fused"]


def test_the_choice_is_left_to_torch_on_mixed_devices_and_for_shards_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, elsewhere = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, device="meta"))
    assert use_fused([{"params": [here]}]) is True
    assert use_fused([{"params": [here]}, {"params": [elsewhere]}]) is None
    assert use_fused([{"params": [here]}], sharded=False) is True
    monkeypatch.setattr(base, "DTensor", nn.Parameter)  # as if it were sharded
    assert use_fused([{"params": [here]}], sharded=False) is None
    assert use_fused([{"params": [here]}]) is True


def test_an_optimiser_has_to_say_how_it_is_built_and_what_it_keeps() -> None:
    unfinished = Optimiser(OptimiserOptions())
    with pytest.raises(NotImplementedError):
        unfinished.build([])
    with pytest.raises(NotImplementedError):
        unfinished.state_tensors()
