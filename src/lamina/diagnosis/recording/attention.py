"""The attention of one pass: for every head the largest logit, and the entropy of its weights.

Attention that is computed in one kernel shows neither logits nor weights: one product of its queries and keys is made
here. Attention that is written out is recognised by a softmax whose result is multiplied by the values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measurement import Location

MASKED = -9000.0
"""Logits below this are masked: masks add minus infinity, the lowest number of a precision, or -10,000."""
CHUNK = 2**22
"""The number of logits that are computed at a time."""
PRODUCTS = {"matmul", "__matmul__", "bmm", "baddbmm", "einsum"}
"""A softmax is that of attention if its result is multiplied by the values; that of a router of experts is not."""
FOLLOWED = {"masked_fill", "pad", "reshape", "where", "mul", "__mul__", "__rmul__", "div", "__truediv__", "to", "float"}
FOLLOWED |= {"type_as", "clamp", "contiguous", "clone", "dropout", "view"}
"""The functions through which the result of a softmax is followed."""


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """One call of attention; its numbers are tensors until the pass is over."""

    location: Location
    """Stack, layer from 1, kind and module."""
    largest: Tensor  # (heads,)
    """The largest absolute logit."""
    entropy: Tensor  # (heads,)
    """The mean of −Σ p ln p ÷ ln n over queries that see n ≥ 2 keys; NaN where there is none."""


def summarise(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest absolute logit and the entropy of every head, of logits (sequences, heads, queries, keys)."""
    largest, total, rows = [], [], []
    step = max(1, CHUNK // max(1, logits[0].numel()))
    for first in range(0, len(logits), step):
        part = logits[first : first + step].detach().float()
        seen = part > MASKED
        count = seen.sum(-1)  # (sequences, heads, queries)
        largest.append(torch.where(seen, part.abs(), 0.0).amax((0, 2, 3)))
        part = part.masked_fill(~seen, -inf)
        weights = part.softmax(-1).nan_to_num(0.0)
        logs = torch.where(weights > 0, weights.log(), 0.0)
        entropy = -(weights * logs).sum(-1) / count.clamp(min=2).log()
        valid = count > 1
        total.append(torch.where(valid, entropy, 0.0).sum((0, 2)))
        rows.append(valid.sum((0, 2)))
    return torch.stack(largest).amax(0), torch.stack(total).sum(0) / torch.stack(rows).sum(0)


def logits_of_kernel(function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Iterator[Tensor]:
    """The logits of `scaled_dot_product_attention`, a few sequences at a time: (sequences, heads, queries, keys)."""
    given = _named(arguments, options, ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"))
    query, key = (_by_heads(given[name].detach()) for name in ("query", "key"))
    if key.shape[1] != query.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)  # grouped key-value heads
    scale = given.get("scale")
    scale = 1 / sqrt(query.shape[-1]) if scale is None else scale
    mask = given.get("attn_mask")
    step = max(1, CHUNK // max(1, query[0].numel() // query.shape[-1] * key.shape[-2]))
    for first in range(0, len(query), step):
        logits = query[first : first + step] @ key[first : first + step].transpose(-2, -1) * scale
        if given.get("is_causal"):
            logits = logits.masked_fill(torch.ones_like(logits[0, 0], dtype=torch.bool).triu(1), -inf)
        if mask is not None:
            part = _by_heads(mask.expand(*given["query"].shape[:-1], key.shape[-2]))[first : first + step]
            logits = logits.masked_fill(~part, -inf) if part.dtype == torch.bool else logits + part
        yield logits


def logits_of_torch(function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Tensor:
    """The logits of torch's `multi_head_attention_forward`, from its arguments."""
    given = inspect.signature(function).bind(*arguments, **options).arguments
    query, key = given["query"].detach(), given["key"].detach()  # (length, sequences, dim)
    dim, heads, bias = query.shape[-1], given["num_heads"], given["in_proj_bias"]
    if given.get("use_separate_proj_weight"):
        matrices = given["q_proj_weight"], given["k_proj_weight"]
    else:
        matrices = given["in_proj_weight"][:dim], given["in_proj_weight"][dim : 2 * dim]
    biases = (None, None) if bias is None else (bias[:dim], bias[dim : 2 * dim])
    parts = [
        F.linear(x, matrix, each)
        .view(*x.shape[:2], heads, -1)
        .permute(1, 2, 0, 3)  # (sequences, heads, length, head_dim)
        for x, matrix, each in zip((query, key), matrices, biases, strict=True)
    ]
    logits = parts[0] @ parts[1].transpose(-2, -1) / sqrt(parts[0].shape[-1])
    mask, padding = given.get("attn_mask"), given.get("key_padding_mask")
    if mask is not None:
        mask = mask if mask.dim() == 2 else mask.unflatten(0, (-1, heads))
        logits = logits.masked_fill(mask, -inf) if mask.dtype == torch.bool else logits + mask
    elif given.get("is_causal"):
        logits = logits.masked_fill(torch.ones_like(logits[0, 0], dtype=torch.bool).triu(1), -inf)
    if padding is not None:
        padding = padding[:, None, None]
        logits = logits.masked_fill(padding, -inf) if padding.dtype == torch.bool else logits + padding
    return logits


def _named(arguments: tuple[Any, ...], options: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return dict(zip(names, arguments, strict=False)) | dict(options)


def _by_heads(tensor: Tensor) -> Tensor:
    """(…, heads, length, dim) with exactly one dimension before the heads."""
    return tensor.reshape(-1, *tensor.shape[-3:]) if tensor.dim() != 3 else tensor.unsqueeze(0)


class SoftmaxTrace:
    """Follows the result of a softmax over positions to the product with the values, which is attention."""

    def __init__(self) -> None:
        # By storage address: the weights, which are held so that no address is used twice, and the logits.
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}

    def follow(self, name: str, arguments: tuple[Any, ...], output: Any) -> Tensor | None:
        """Add a call of a function; returns the logits if it is the product that completes attention."""
        if name == "softmax" and isinstance(output, Tensor) and output.dim() >= 3:
            self._weights[_address(output)] = output, arguments[0]
            return None
        if not self._weights or not (name in PRODUCTS or name in FOLLOWED):
            return None
        tensors = [each for each in arguments if isinstance(each, Tensor)]
        tensors += [each for part in arguments if isinstance(part, tuple | list) for each in part]
        addresses = [_address(each) for each in tensors if isinstance(each, Tensor)]
        found = next((self._weights[each] for each in addresses if each in self._weights), None)
        if found is None:
            return None
        if name in PRODUCTS:
            self._weights.clear()
            return found[1]
        if isinstance(output, Tensor):
            self._weights[_address(output)] = output, found[1]
        return None


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def by_heads(logits: Tensor) -> Tensor:
    """Logits of a written-out attention as (sequences, heads, queries, keys)."""
    return _by_heads(logits)
