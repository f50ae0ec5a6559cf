"""How large the stream is after every layer, seen by hooks that stay for one step of the optimiser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.results import Result
from lamina.diagnosis.watching.step_probe import fetch


class StreamSizes(Result):
    """By stack."""

    sizes: dict[str, tuple[float, ...]]
    """The root mean square of the first stream after every layer; NaN for layers that were left out."""
    peaks: dict[str, float]
    """The largest absolute value in any stream after any layer."""


class StreamProbe:
    """Looks at passes with gradient only: validation between two steps is none of its business.

    Of several passes, as in accumulation, the last one stays.
    """

    def __init__(self, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> None:
        self._depths = {stack: len(modules) for stack, modules in layers.items()}
        self._seen: dict[str, dict[int, tuple[Tensor, Tensor]]] = {stack: {} for stack in layers}
        self._hooks = ExitStack()
        for stack, modules in layers.items():
            for number, layer in enumerate(modules):
                handle = layer[-1].register_forward_hook(partial(self._look, stack, number))
                self._hooks.callback(handle.remove)

    def _look(self, stack: str, number: int, layer: nn.Module, arguments: Any, output: Any) -> None:
        if torch.is_grad_enabled() and (streams := list(_streams(output))):
            with torch.no_grad():
                size = streams[0].float().square().mean().sqrt()
                peak = torch.stack([each.abs().amax().float() for each in streams]).amax()
            self._seen[stack][number] = size, peak

    def close(self) -> None:
        self._hooks.close()

    def finish(self) -> StreamSizes:
        self.close()
        numbers = iter(fetch([number for layers in self._seen.values() for pair in layers.values() for number in pair]))
        sizes, peaks = {}, {}
        for stack, layers in self._seen.items():
            found = {layer: (next(numbers), next(numbers)) for layer in layers}
            if found:
                sizes[stack] = tuple(found.get(layer, (nan, nan))[0] for layer in range(self._depths[stack]))
                peaks[stack] = max(peak for _, peak in found.values())
        return StreamSizes(sizes=sizes, peaks=peaks)


def _streams(output: Any) -> Iterable[Tensor]:
    """The tensors of a layer's answer that can be a stream; foreign layers may add caches and weights to it."""
    parts = output.values() if isinstance(output, Mapping) else (output,) if isinstance(output, Tensor) else output
    if not isinstance(parts, Iterable):
        return
    tensors = [each.detach() for each in parts if isinstance(each, Tensor) and each.is_floating_point()]
    yield from (each for each in tensors if each.shape[-1:] == tensors[0].shape[-1:])
