"""Recording Lamina's own stacks, alone or inside any model.

    with recording(model) as found:
        loss(model(…)).backward()
    found.stacks

A layer calls an observer for every sub-layer just before it writes to the residual stream; sub-layers and norms are
modules and take hooks. The code of schemes and models contains nothing for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.records import NormRecord, RecordedTensor, StackRecord, SublayerRecord
from lamina.diagnosis.recording.structure import is_norm
from lamina.diagnosis.recording.taps import Taps
from lamina.model.stack import Layer, Stack
from lamina.residual.base import Place


class StackRecords:
    """The records of all stacks, filled in when the `with` block ends."""

    def __init__(self) -> None:
        self.stacks: list[StackRecord] = []
        self.notes: list[str] = []
        """Notes about what could not be recorded, with the reasons."""


@contextmanager
def recording(model: nn.Module) -> Iterator[StackRecords]:
    """Record the first pass through every stack of `model`; the backward pass must run inside the `with` block."""
    found, taps = StackRecords(), Taps()
    recorders = [_StackRecorder(path, stack, taps) for path, stack in own_stacks(model)]
    with ExitStack() as hooks:
        for each in recorders:
            each.hook_into(hooks)
        yield found
    found.notes += taps.close()
    found.stacks = [each.record for each in recorders if each.record is not None]


def own_stacks(model: nn.Module) -> list[tuple[str, Stack]]:
    """Lamina's stacks with their paths, without those inside the sub-layers of another stack."""
    found: list[tuple[str, Stack]] = []
    for path, module in model.named_modules():
        if isinstance(module, Stack) and not any(path.startswith(f"{outer}.") or not outer for outer, _ in found):
            found.append((path, module))
    return found


def stack_name(path: str) -> str:
    """The name of a stack in results: its path, or `stack` if it is the whole model."""
    return path or "stack"


class _StackRecorder:
    """Records one stack between the hook before its forward and the hook after it.

    Calls of its layers outside that time, as when activation checkpointing computes them again, are not recorded.
    """

    def __init__(self, path: str, stack: Stack, taps: Taps) -> None:
        self.path, self.stack, self.taps = path, stack, taps
        self.record: StackRecord | None = None
        self.running = False
        self.input: RecordedTensor
        self.real: Tensor | None = None
        self.sublayers: list[SublayerRecord] = []
        self.norms: list[NormRecord] = []
        self._places: dict[int, Place] = {
            id(site): place for layer in stack.layers for site, place in zip(layer.sites, layer.places, strict=True)
        }
        self._read: Tensor

    def hook_into(self, hooks: ExitStack) -> None:
        stack = self.stack
        handles = [
            stack.register_forward_pre_hook(self._begin, with_kwargs=True),
            stack.register_forward_hook(self._end),
        ]
        for layer in stack.layers:
            handles += [
                layer.register_forward_pre_hook(self._add_observer),
                layer.register_forward_hook(self._leave_layer),
            ]
        for sublayer in dict.fromkeys(each for layer in stack.layers for each in layer.sublayers):
            handles.append(sublayer.register_forward_pre_hook(self._keep_read))
        for path, norm, place in self._norm_modules():
            handles.append(norm.register_forward_hook(partial(self._record_norm, path, place)))
        for handle in handles:
            hooks.callback(handle.remove)

    def _norm_modules(self) -> Iterator[tuple[str, nn.Module, Place | None]]:
        """The norms that the residual scheme placed; norms inside sub-layers are not recorded."""
        sites = [(site, self._places[id(site)]) for layer in self.stack.layers for site in layer.sites]
        owner: dict[int, Place | None] = {id(module): place for site, place in sites for module in site.modules()}
        owner |= {id(module): None for module in self.stack.residual.modules()}
        for path, module in self.stack.named_modules(prefix=self.path):
            if id(module) in owner and is_norm(module):
                yield path, module, owner[id(module)]

    def _begin(self, stack: nn.Module, arguments: tuple[Any, ...], context: Mapping[str, Any]) -> None:
        if self.record is not None:
            return  # only the first pass is recorded
        x = arguments[0]
        self.running, self.input = True, self.taps.record(x)
        mask = context.get("mask")
        if isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == x.shape[:-1]:
            self.real = mask

    def _add_observer(self, layer: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (*arguments[:2], self._observe, *arguments[3:]) if self.running else None

    def _keep_read(self, sublayer: nn.Module, arguments: tuple[Any, ...]) -> None:
        self._read = arguments[0]

    def _observe(self, site: Any, state: Any, branch: Tensor) -> None:
        before = self.taps.record_streams(state)
        self._close_sublayer(before)
        self.sublayers.append(
            SublayerRecord(
                self._places[id(site)], self.taps.record(self._read), self.taps.record(branch), before, after=()
            )
        )

    def _leave_layer(self, layer: Layer, arguments: tuple[Any, ...], state: Any) -> None:
        if self.running:
            self._close_sublayer(self.taps.record_streams(state))

    def _close_sublayer(self, after: tuple[RecordedTensor, ...]) -> None:
        """The streams after a sub-layer are those before the next one."""
        if self.sublayers and not self.sublayers[-1].after:
            self.sublayers[-1].after = after

    def _record_norm(
        self, path: str, place: Place | None, norm: nn.Module, arguments: tuple[Any, ...], output: Tensor
    ) -> None:
        if self.running:
            index = None if place is None else place.index
            self.norms.append(NormRecord(path, norm, index, self.taps.record(arguments[0]), self.taps.record(output)))

    def _end(self, stack: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        if not self.running:
            return
        self.running = False
        self.record = StackRecord(
            name=stack_name(self.path),
            streams=self.stack.residual.streams,
            input=self.input,
            sublayers=self.sublayers,
            norms=self.norms,
            output=self.taps.record(output),
            own=self.stack,
            real=self.real,
        )
