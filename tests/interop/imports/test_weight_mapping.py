"""The mapping of weights: every tensor that is missing, superfluous or of another shape is listed."""

from __future__ import annotations

import pytest
import torch

from lamina.errors import UserError
from lamina.interop.imports.weight_mapping import WeightMapping


def test_tensors_get_other_names() -> None:
    given = {
        "fc.weight": torch.ones(2, 3).half(),
        "fc.bias": torch.zeros(2),
        "ln.weight": torch.ones(3),
        "mask": torch.ones(1),
    }
    weights = WeightMapping(given, "here")
    weights.linear("own", "fc", 2, 3)
    weights.norm("norm", "ln", 3, bias=False)
    found = weights.finish(unused="mask")
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "own.weight": (2, 3),
        "own.bias": (2,),
        "norm.weight": (3,),
    }
    assert {value.dtype for value in found.values()} == {torch.float32}


def test_every_difference_is_listed() -> None:
    given = {
        "fc.weight": torch.ones(2, 4),
        "ln.weight": torch.full((3,), torch.nan),
        "ids.weight": torch.ones(2, 3).long(),
        "extra": torch.ones(1),
    }
    weights = WeightMapping(given, "checkpoint")
    weights.linear("own", "fc", 2, 3)
    weights.norm("norm", "ln", 3, bias=False)
    weights.linear("ids", "ids", 2, 3, bias=False)
    with pytest.raises(UserError) as caught:
        weights.finish(unused="")
    assert str(caught.value).splitlines() == [
        "checkpoint: the tensors are not those of the model that the config describes:",
        "  fc.weight: its shape is (2, 4), the config says (2, 3)",
        "  fc.bias: missing; its shape would be (2,)",
        "  ids.weight: not floating-point numbers but int64",
        "  extra: no place for it in the model that the config describes",
        "  norm.weight: has values that are not finite",
        "Copy the whole checkpoint again, or give the config that belongs to it",
    ]
