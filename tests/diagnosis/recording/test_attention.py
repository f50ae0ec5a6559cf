"""Logits and entropies of attention, of kernels and written out."""

from __future__ import annotations

from math import inf, log, sqrt

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.diagnosis.recording.attention import SoftmaxTrace, logits_of_kernel, logits_of_torch, summarise


def test_the_largest_logit_and_the_entropy_by_a_plain_loop(float64: None) -> None:
    logits = 3 * torch.randn(2, 3, 4, 5)
    logits[:, :, :, 3:] = -inf
    logits[0, 0, 0, 1:] = -1e4  # one key is left: no entropy
    largest, entropy = summarise(logits)
    for head in range(3):
        seen, entropies = [], []
        for sequence in range(2):
            for query in range(4):
                row = [float(each) for each in logits[sequence, head, query] if each > -9000]
                seen += [abs(each) for each in row]
                if len(row) > 1:
                    total = sum(torch.tensor(row).exp().tolist())
                    shares = [float(torch.tensor(each).exp()) / total for each in row]
                    entropies.append(-sum(p * log(p) for p in shares) / log(len(row)))
        assert largest[head].item() == pytest.approx(max(seen), rel=1e-5)
        assert entropy[head].item() == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)


@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "added"])
def test_the_logits_of_a_kernel_give_its_output(float64: None, mask: str) -> None:
    query, key, value = torch.randn(3, 2, 4, 6, 8)
    options: dict[str, object] = {}
    if mask == "causal":
        options["is_causal"] = True
    elif mask != "none":
        hidden = torch.rand(2, 1, 6, 6) < 0.3
        hidden[..., 0] = False
        options["attn_mask"] = ~hidden if mask == "boolean" else torch.where(hidden, -inf, 0.5)
    (logits,) = logits_of_kernel(None, (query, key, value), options)
    expected = F.scaled_dot_product_attention(query, key, value, **options)  # type: ignore[arg-type]
    assert torch.allclose(logits.softmax(-1) @ value, expected)


def test_grouped_heads_and_a_scale_of_its_own(float64: None) -> None:
    query, key = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8)
    (logits,) = logits_of_kernel(None, (query, key, key), {"scale": 1.0, "enable_gqa": True})
    assert torch.allclose(logits[0, 3], query[0, 3] @ key[0, 1].T)


@pytest.mark.parametrize("padded", [False, True])
def test_the_logits_of_torchs_attention_are_its_weights(float64: None, padded: bool) -> None:
    attention, seen = nn.MultiheadAttention(8, 2, batch_first=True), []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
            if getattr(function, "__name__", "") == "multi_head_attention_forward":
                seen.append(logits_of_torch(function, arguments, options or {}))
            return function(*arguments, **(options or {}))

    x = torch.randn(3, 5, 8)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [4]]) if padded else None
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with Mode():
        _, weights = attention(x, x, x, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)
    assert torch.allclose(seen[0].softmax(-1), weights)


def test_a_softmax_is_followed_to_the_product_with_the_values() -> None:
    def run(x: Tensor, *, routes: bool) -> Tensor | None:
        trace = SoftmaxTrace()
        weights = x.softmax(-1)
        assert trace.follow("softmax", (x, -1), weights) is None
        dropped = weights * 2
        assert trace.follow("mul", (weights, 2), dropped) is None
        return trace.follow("add" if routes else "matmul", (dropped, x), dropped @ x)

    x = torch.randn(2, 3, 3) / sqrt(3)
    assert run(x, routes=False) is x
    assert run(x, routes=True) is None, "a router of experts"
