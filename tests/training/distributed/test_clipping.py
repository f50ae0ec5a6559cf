"""Clipping of gradients, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.training.distributed.clipping import clip_gradients


@pytest.mark.parametrize(
    ("limit", "value"),
    [(limit, value) for limit in (1e-3, 1.0, 1e6) for value in (1.0, float("inf"), float("nan"))]
    + [(float("inf"), 1.0)],
)
def test_the_same_as_torch(limit: float, value: float) -> None:
    found = []
    for clip in (clip_gradients, nn.utils.clip_grad_norm_):
        torch.manual_seed(1)
        parameters = [nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (5,), (2,))]
        for parameter in parameters[:2]:
            parameter.grad = torch.randn(parameter.shape)
        assert parameters[0].grad is not None
        parameters[0].grad[0, 0] = value
        norm = clip(parameters, limit)
        found.append(torch.cat([torch.tensor([float(norm)]), *(each.grad.flatten() for each in parameters[:2])]))  # type: ignore[union-attr]
    torch.testing.assert_close(*found, rtol=0, atol=0, equal_nan=True)


def test_without_a_limit_gradients_stay_as_they_are() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([1.0, float("inf")])
    assert clip_gradients([parameter], float("inf")) == float("inf")
    assert parameter.grad.tolist() == [1.0, float("inf")]
