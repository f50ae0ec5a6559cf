"""Recording Lamina's own stacks, alone or inside any model.

    with recording(model) as recorder:
        loss(model(…)).backward()
    recorder.stacks

A layer tells an observer about every sub-layer just before its write; sub-layers and norms are modules and take hooks.
The code of schemes and models knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.records import NormRecord, Seen, StackRecord, SublayerRecord
from lamina.diagnosis.recording.structure import is_norm
from lamina.diagnosis.recording.taps import Eyes
from lamina.model.stack import Layer, Stack
from lamina.residual.base import Place


class Recorder:
    """What was recorded, once the `with` is over."""

    def __init__(self) -> None:
        self.stacks: list[StackRecord] = []
        self.notes: list[str] = []


@contextmanager
def recording(model: nn.Module) -> Iterator[Recorder]:
    """Record the first pass through every stack of `model`; the backward pass belongs inside the `with`."""
    recorder, eyes = Recorder(), Eyes()
    watched = [_Watched(path, stack, eyes) for path, stack in own_stacks(model)]
    with ExitStack() as hooks:
        for each in watched:
            each.hook_into(hooks)
        yield recorder
    recorder.notes += eyes.close()
    recorder.stacks = [each.record for each in watched if each.record is not None]


def own_stacks(model: nn.Module) -> list[tuple[str, Stack]]:
    """Lamina's stacks with their paths, but not those inside another's sub-layers."""
    found: list[tuple[str, Stack]] = []
    for path, module in model.named_modules():
        if isinstance(module, Stack) and not any(path.startswith(f"{outer}.") or not outer for outer, _ in found):
            found.append((path, module))
    return found


def stack_name(path: str) -> str:
    return path or "stack"


class _Watched:
    """One stack, from the hook before its forward to the hook after it.

    What its layers do outside that time, as when activation checkpointing computes them again, is not recorded.
    """

    def __init__(self, path: str, stack: Stack, eyes: Eyes) -> None:
        self.path, self.stack, self.see, self.see_parts = path, stack, eyes.see, eyes.see_parts
        self.record: StackRecord | None = None
        self.running = False
        self.input: Seen
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
                layer.register_forward_pre_hook(self._ask_to_observe),
                layer.register_forward_hook(self._leave_layer),
            ]
        for sublayer in dict.fromkeys(each for layer in stack.layers for each in layer.sublayers):
            handles.append(sublayer.register_forward_pre_hook(self._note_read))
        for path, norm, place in self._norm_modules():
            handles.append(norm.register_forward_hook(partial(self._note_norm, path, place)))
        for handle in handles:
            hooks.callback(handle.remove)

    def _norm_modules(self) -> Iterator[tuple[str, nn.Module, Place | None]]:
        """The norms that the scheme placed; those inside sub-layers are the sub-layers' affair."""
        sites = [(site, self._places[id(site)]) for layer in self.stack.layers for site in layer.sites]
        owner: dict[int, Place | None] = {id(module): place for site, place in sites for module in site.modules()}
        owner |= {id(module): None for module in self.stack.residual.modules()}
        for path, module in self.stack.named_modules(prefix=self.path):
            if id(module) in owner and is_norm(module):
                yield path, module, owner[id(module)]

    def _begin(self, stack: nn.Module, arguments: tuple[Any, ...], context: Mapping[str, Any]) -> None:
        if self.record is not None:
            return  # the first pass is the one
        x = arguments[0]
        self.running, self.input = True, self.see(x)
        mask = context.get("mask")
        if isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == x.shape[:-1]:
            self.real = mask

    def _ask_to_observe(self, layer: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (*arguments[:2], self._observe) if self.running else None

    def _note_read(self, sublayer: nn.Module, arguments: tuple[Any, ...]) -> None:
        self._read = arguments[0]

    def _observe(self, site: Any, state: Any, branch: Tensor) -> None:
        before = self.see_parts(state)
        self._close_sublayer(before)
        self.sublayers.append(
            SublayerRecord(self._places[id(site)], self.see(self._read), self.see(branch), before, after=())
        )

    def _leave_layer(self, layer: Layer, arguments: tuple[Any, ...], state: Any) -> None:
        if self.running:
            self._close_sublayer(self.see_parts(state))

    def _close_sublayer(self, after: tuple[Seen, ...]) -> None:
        """What a sub-layer left is what the next one finds."""
        if self.sublayers and not self.sublayers[-1].after:
            self.sublayers[-1].after = after

    def _note_norm(
        self, path: str, place: Place | None, norm: nn.Module, arguments: tuple[Any, ...], output: Tensor
    ) -> None:
        if self.running:
            index = None if place is None else place.index
            self.norms.append(NormRecord(path, norm, index, self.see(arguments[0]), self.see(output)))

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
            output=self.see(output),
            own=self.stack,
            real=self.real,
        )
