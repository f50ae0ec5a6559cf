"""The contributions of the input and of each branch to the residual stream, propagated through the stack.

With the statistics of its norms held fixed, a residual site is linear in stream and branch: a norm is
(c − mean(c))·gain ÷ std, with the std that it had for the whole stream. So the contributions c_ij of the input (j = 0)
and of the branches j ≤ i to x_i are computed by the sites themselves, all at once along a leading axis, for any scheme;
Σ_j c_ij = x_i, except for the biases of norms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.reading import as_state, branch_of, same
from lamina.diagnosis.recording.records import RecordedTensor, StackRecord, SublayerRecord

POSITIONS = 128
"""The number of positions, evenly spaced, that are used: there is a contribution for every pair of sub-layers."""


class Contributions(NamedTuple):
    parts: Tensor
    """c_ij by j, of the input and the branches up to i: (i + 1, positions, …, dim)."""
    stream: Tensor
    """x_i, (positions, …, dim)."""


@torch.no_grad()
def contributions(stack: StackRecord) -> Iterator[Contributions]:
    """The contributions to the first stream, after each sub-layer."""
    rows = _rows(stack)
    whole = rows(stack.input)
    if stack.own is None:
        carried = as_state(stack, [whole.unsqueeze(0)])
    else:
        scheme = stack.own.residual
        with linear_norms(scheme, lambda: scheme.open(whole)):
            carried = scheme.open(whole.unsqueeze(0))
    for sublayer, site in zip(stack.sublayers, _sites(stack), strict=True):
        before = as_state(stack, [rows(part) for part in sublayer.before])
        branch = rows(branch_of(stack, sublayer))
        with linear_norms(site, lambda: site.write(before, branch)):  # noqa: B023  (called at once)
            earlier = carried.shape[0] if isinstance(carried, Tensor) else carried[0].shape[0]
            carried = site.write(_with_zeros(carried), _last_of(branch, earlier + 1))
        first = carried if isinstance(carried, Tensor) else carried[0]
        yield Contributions(first, rows(sublayer.after[0]))


@contextmanager
def linear_norms(module: nn.Module, run: Callable[[], Any]) -> Iterator[None]:
    """A context in which the norms of a module are linear: they use the statistics from `run` and add no bias."""
    norms = [each for each in module.modules() if isinstance(each, nn.LayerNorm | nn.RMSNorm)]
    scales: dict[nn.Module, Tensor] = {}

    def watch(norm: nn.Module, arguments: tuple[Tensor, ...], _: Tensor) -> None:
        scales[norm] = (_centred(norm, arguments[0]).square().mean(-1, keepdim=True) + _eps(norm, arguments[0])).rsqrt()

    def replace(norm: nn.Module, arguments: tuple[Tensor, ...], _: Tensor) -> Tensor:
        scaled = _centred(norm, arguments[0]) * scales[norm]
        return scaled if norm.weight is None else scaled * norm.weight  # type: ignore[operator]

    with _hooked(norms, watch):
        run()
    with _hooked(norms, replace):
        yield


@contextmanager
def _hooked(modules: Sequence[nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _centred(norm: nn.Module, x: Tensor) -> Tensor:
    return x if isinstance(norm, nn.RMSNorm) else x - x.mean(-1, keepdim=True)


def _eps(norm: nn.Module, x: Tensor) -> float:
    return torch.finfo(x.dtype).eps if norm.eps is None else norm.eps  # type: ignore[return-value]


def _with_zeros(state: Any) -> Any:
    """The state with a zero contribution appended, for the newest branch."""
    if isinstance(state, tuple):
        return tuple(map(_with_zeros, state))
    return torch.cat([state, torch.zeros_like(state[:1])])


def _last_of(branch: Tensor, number: int) -> Tensor:
    """The branch as the last of `number` contributions, of which the others are zero."""
    return torch.cat([branch.new_zeros(number - 1, *branch.shape), branch.unsqueeze(0)])


def _rows(stack: StackRecord) -> Callable[[RecordedTensor], Tensor]:
    """A function that selects the same real positions of any recorded tensor, (positions, …, dim)."""
    leading = stack.input.value.dim() - 1
    real = None if stack.real is None else stack.real.flatten()
    total = stack.input.value.shape[:-1].numel() if real is None else int(real.sum())
    every = -(-total // POSITIONS)

    def choose(seen: RecordedTensor) -> Tensor:
        rows = seen.value.flatten(0, leading - 1) if leading > 1 else seen.value
        rows = rows if real is None else rows[real]
        return rows[::every].to(torch.promote_types(rows.dtype, torch.float32))

    return choose


def _sites(stack: StackRecord) -> Iterator[Any]:
    if stack.own is not None:
        yield from (entry.site for entry in stack.own.entries)
    else:
        yield from (_foreign_site(stack, sublayer) for sublayer in stack.sublayers)


class ForeignSite(nn.Module):
    """The residual connection of a foreign layer: a sum of stream and branch, or the norm of that sum."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(state + branch)


def _foreign_site(stack: StackRecord, sublayer: SublayerRecord) -> ForeignSite:
    norms = [each.module for each in stack.norms if same(each.output, sublayer.after[0])]
    site = ForeignSite(norms[0] if norms else nn.Identity())
    written = site.write(sublayer.before[0].value, branch_of(stack, sublayer).value)
    if not torch.allclose(written, sublayer.after[0].value, rtol=1e-3, atol=1e-4):
        raise NotMeasurable(f"{sublayer.place} of the {stack.name} leaves neither a sum nor a norm of one")
    return site
