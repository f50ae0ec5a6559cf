"""Dropout from random bytes: the share of zeros, the mean, independence, and attention against its formula."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina.model.kernels.dropout import Dropout, MaskSequence, attend_with_dropout

COUNT = 400_000
PROBABILITIES = [0.0005, 0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9, 0.999]


def zeros(p: float, seed: int, count: int = COUNT) -> Tensor:
    """1 where an element is dropped."""
    torch.manual_seed(seed)
    return (Dropout(p)(torch.ones(count)) == 0).double()


@pytest.mark.parametrize("p", PROBABILITIES)
def test_the_probability_is_rounded_by_at_most_two_percent(p: float) -> None:
    rounded = Dropout(p).rounded
    assert abs(rounded - p) <= 0.02 * min(p, 1 - p)
    assert rounded in (round(256 * p) / 256, round(65536 * p) / 65536)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_share_of_zeros_and_mean(p: float) -> None:
    """Over 3,000 seeds the share at p = 0.1 has the binomial's deviation; seed 1 is one of the rare ones beyond 4."""
    dropout, found = Dropout(p), []
    for seed in range(8):
        torch.manual_seed(seed)
        found.append(dropout(torch.full((COUNT,), 2.0)))
    values = torch.cat(found)
    deviation = sqrt(dropout.rounded * (1 - dropout.rounded) / len(values))
    assert abs((values == 0).double().mean().item() - dropout.rounded) < 4 * deviation
    assert abs(values.double().mean().item() - 2) < 4 * 2 * deviation / (1 - dropout.rounded) + 1e-6
    assert set(values.unique().tolist()) == {0.0, torch.tensor(2.0).mul(1 / (1 - dropout.rounded)).item()}


@pytest.mark.parametrize("p", [0.1, 0.01, 0.5])
def test_elements_calls_and_seeds_are_independent(p: float) -> None:
    torch.manual_seed(2)
    dropout, ones = Dropout(p), torch.ones(COUNT)
    first, second, other = (dropout(ones) == 0).double(), (dropout(ones) == 0).double(), zeros(p, seed=3)
    pairs = [(first, second), (first, other), *((first[:-lag], first[lag:]) for lag in (1, 2, 3, 4, 7, 8))]
    for one, another in pairs:
        correlation = torch.corrcoef(torch.stack([one, another]))[0, 1].item()
        assert abs(correlation) < 4 / sqrt(COUNT - 8)
    by_place = first.view(-1, 8).mean(0) - first.mean()  # every byte of a number is used alike
    assert by_place.abs().max().item() < 4.5 * sqrt(p * (1 - p) / (COUNT / 8))


def test_the_seed_determines_the_masks() -> None:
    assert torch.equal(zeros(0.1, seed=7, count=1003), zeros(0.1, seed=7, count=1003))
    assert not torch.equal(zeros(0.1, seed=7, count=1003), zeros(0.1, seed=8, count=1003))


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (7,), (3, 5, 2)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_shape_and_type(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    found = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert found.shape == shape
    assert found.dtype == dtype
    assert set(found.flatten().tolist()) <= {0.0, 2.0}


def test_the_gradient_has_the_same_mask() -> None:
    x = torch.ones(1000, requires_grad=True)
    found = Dropout(0.3)(x)
    found.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, found.detach())


def test_recomputation_has_the_same_masks() -> None:
    layer = nn.Sequential(nn.Linear(8, 8), Dropout(0.3), nn.Tanh(), Dropout(0.01))
    x, gradients = torch.randn(50, 8), []
    for recompute in (False, True):
        torch.manual_seed(4)
        layer.zero_grad()
        (checkpoint(layer, x, use_reentrant=False) if recompute else layer(x)).square().sum().backward()
        gradients.append(torch.cat([each.grad.flatten() for each in layer.parameters() if each.grad is not None]))
    assert torch.equal(*gradients)


def test_nothing_is_drawn_in_evaluation_or_at_zero() -> None:
    x, before = torch.randn(10), torch.get_rng_state()
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_on_another_device_and_when_exported_it_is_the_dropout_of_torch() -> None:
    assert Dropout(0.1)(torch.ones(4, device="meta")).is_meta
    program = torch.export.export(Dropout(0.1), (torch.ones(4),))
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert names == {"aten.dropout.default"}


@pytest.mark.parametrize("shape", [(7,), (5, 8), (3, 5, 2)])
@pytest.mark.parametrize("p", [0.1, 0.01])
def test_masks_do_not_depend_on_how_many_are_drawn_at_once(
    shape: tuple[int, ...], p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for at_once in (1, 20, 10**6):
        monkeypatch.setattr("lamina.model.kernels.dropout.AT_ONCE", at_once)
        torch.manual_seed(9)
        masks = MaskSequence(Dropout(p), torch.empty(shape), count=7)
        found.append(torch.stack([mask for count in (2, 3, 2) for mask in masks.take(count)]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    assert found[0].shape == (7, *shape)


def test_masks_that_are_drawn_again_are_those_of_the_sequence() -> None:
    def sequence() -> MaskSequence:
        torch.manual_seed(9)
        return MaskSequence(Dropout(0.3), torch.empty(5, 8), count=6)

    expected = list(sequence().take(6))
    masks, draws, found = sequence(), [], []
    for _ in range(3):
        draws.append(masks.to_be_drawn(2))
        found += draws[-1]()
    assert torch.equal(torch.stack(found), torch.stack(expected))
    again = [draws[number]() for number in (2, 1, 0)]
    assert torch.equal(torch.stack([*again[2], *again[1], *again[0]]), torch.stack(expected))
    assert len({tuple(mask.flatten().tolist()) for mask in expected}) == 6


class KeepAll(Dropout):
    """Dropout that is active and drops nothing."""

    def draw_masks(self, count: int, shape: Any, dtype: Any, generator: Any = None) -> tuple[Tensor, ...]:
        return torch.ones(count, *shape, dtype=dtype).unbind()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(("causal", "padded"), [(False, False), (True, False), (False, True)])
def test_attention_without_drops_is_the_kernel_of_torch(
    kv_heads: int, causal: bool, padded: bool, float64: None
) -> None:
    queries, keys, values = torch.randn(3, 4, 6, 8), torch.randn(3, kv_heads, 6, 8), torch.randn(3, kv_heads, 6, 8)
    mask = torch.arange(6) < torch.tensor([6, 4, 1])[:, None] if padded else None
    mask = None if mask is None else mask[:, None, None, :]
    expected = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=kv_heads < 4
    )
    torch.testing.assert_close(attend_with_dropout(queries, keys, values, mask, causal, KeepAll(0.1)), expected)


def test_attention_weights_are_dropped(float64: None) -> None:
    torch.manual_seed(5)
    weights = attend_with_dropout(
        torch.randn(40, 2, 16, 4),
        torch.randn(40, 2, 16, 4),
        torch.eye(16).expand(40, 2, 16, 16),
        None,
        False,
        Dropout(0.25),
    )  # the values are unit vectors, so the result is the matrix of weights
    share = (weights == 0).double().mean().item()
    assert abs(share - 0.25) < 4 * sqrt(0.25 * 0.75 / weights.numel())
    assert abs(weights.sum(-1).mean().item() - 1) < 0.03
