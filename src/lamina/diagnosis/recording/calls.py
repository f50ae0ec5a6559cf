"""What the functions between modules compute in one pass: attention, activations, dropout, tokens and the loss.

    with CallRecorder(model, layers) as calls:
        loss(model(…)).backward()
    calls.attention, calls.activations, calls.dropouts, calls.tokens, calls.losses

Functions of torch are intercepted, modules are followed by hooks: a call belongs to the innermost module that runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.recording.attention import (
    AttentionRecord,
    SoftmaxTrace,
    by_heads,
    logits_of_kernel,
    logits_of_torch,
    summarise,
)
from lamina.diagnosis.recording.losses import LossRecord, TokensRecord, record_loss, record_tokens
from lamina.diagnosis.recording.structure import is_cross_attention

ACTIVATIONS = {"relu", "relu_", "relu6", "gelu", "silu", "silu_", "mish", "hardswish"}
ACTIVATION_MODULE = re.compile(r"relu|gelu|silu|swish|mish|activation", re.IGNORECASE)
LOSSES = {"cross_entropy", "nll_loss"}
DROPOUTS = {"dropout", "dropout_"}
PASSED = 1e-3
"""A unit is dead if at every position less than this share of its input is left after the activation."""


@dataclass(frozen=True, eq=False)
class ActivationRecord:
    """One call of an activation function."""

    location: Location
    """Stack, layer from 1, and the module that computed its input."""
    dead: Tensor  # (units,)
    """Whether a unit is inactive at every position."""
    positions: int


@dataclass
class Calls:
    """The records of all calls of one pass, in the order of the calls."""

    attention: list[AttentionRecord] = field(default_factory=list)
    activations: list[ActivationRecord] = field(default_factory=list)
    dropouts: dict[Location, float] = field(default_factory=dict)
    """The largest probability with which a module drops values."""
    tokens: list[TokensRecord] = field(default_factory=list)
    losses: list[LossRecord] = field(default_factory=list)


class CallRecorder(TorchFunctionMode):
    """Records calls while it is open; calls in the backward pass, as of activation checkpointing, are left out."""

    def __init__(self, model: nn.Module, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> None:
        """layers: for every stack the modules of every layer."""
        super().__init__()
        self.model, self.calls = model, Calls()
        self._place = {
            inner: (stack, number + 1)
            for stack, modules in layers.items()
            for number, layer in enumerate(modules)
            for module in layer
            for inner in module.modules()
        }
        self._running: list[tuple[str, nn.Module]] = []
        self._left = ""
        self._hooks = ExitStack()
        self._softmax = SoftmaxTrace()

    def __enter__(self) -> Self:
        for path, module in self.model.named_modules():
            handles = [
                module.register_forward_pre_hook(partial(self._begin, path)),
                module.register_forward_hook(partial(self._end, path)),
            ]
            for handle in handles:
                self._hooks.callback(handle.remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._hooks.close()

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        options = options or {}
        output = function(*arguments, **options)
        name = getattr(function, "__name__", "")
        if torch._C._current_graph_task_id() == -1:
            self._add(name, function, arguments, options, output)
        return output

    def _add(
        self, name: str, function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any], output: Any
    ) -> None:
        if name == "scaled_dot_product_attention":
            self._add_attention(logits_of_kernel(function, arguments, options))
            self._add_dropout(options.get("dropout_p", arguments[4] if len(arguments) > 4 else 0.0), training=True)
        elif name == "multi_head_attention_forward":
            self._add_attention([logits_of_torch(function, arguments, options)])
            self._add_dropout(float(arguments[10]), training=bool(options.get("training", True)))
        elif name in ACTIVATIONS:
            if not self._in_activation():
                self._add_activation(arguments[0], output, in_place=name.endswith("_") or options.get("inplace", False))
        elif name in DROPOUTS:
            given = dict(zip(("input", "p", "training"), arguments, strict=False)) | dict(options)
            self._add_dropout(float(given.get("p", 0.5)), training=bool(given.get("training", True)))
        elif name == "embedding":
            declared = getattr(getattr(self.model, "config", None), "pad_token_id", None)
            found = record_tokens(arguments, options, self._path, declared)
            self.calls.tokens += [found] if found is not None else []
        elif name in LOSSES:
            loss = record_loss(name, arguments, options, self._path)
            self.calls.losses += [loss] if loss is not None else []
        else:
            logits = self._softmax.follow(name, arguments, output)
            if logits is not None:
                self._add_attention([by_heads(logits)])

    # Modules.

    def _begin(self, path: str, module: nn.Module, arguments: Any) -> None:
        if torch._C._current_graph_task_id() == -1:
            self._running.append((path, module))

    def _end(self, path: str, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if torch._C._current_graph_task_id() != -1:
            return
        while self._running and self._running.pop()[0] != path:
            pass  # a module that raised an error did not end
        if _is_activation(module):
            if arguments and isinstance(arguments[0], Tensor) and isinstance(output, Tensor):
                self._add_activation(arguments[0], output, in_place=bool(getattr(module, "inplace", False)))
        elif next(module.children(), None) is None:
            self._left = path
        probability = getattr(module, "p", None)
        if "dropout" in type(module).__name__.lower() and isinstance(probability, float):
            self._add_dropout(probability, training=module.training, path=path)

    @property
    def _path(self) -> str:
        return self._running[-1][0] if self._running else ""

    def _in_activation(self) -> bool:
        return bool(self._running) and _is_activation(self._running[-1][1])

    def _location(self, path: str, **fields: Any) -> Location:
        module = self._running[-1][1] if self._running else self.model
        stack, layer = self._place.get(module, (None, None))
        return Location(stack=stack, layer=layer, module=path, **fields)

    # Functions.

    @torch.no_grad()
    def _add_attention(self, logits: Any) -> None:
        if not self._running:
            return
        path, module = self._running[-1]
        parts = [summarise(each) for each in logits]
        largest = torch.stack([each for each, _ in parts]).amax(0)
        entropy = torch.stack([each for _, each in parts]).nanmean(0)
        crosses = any(is_cross_attention(each, inner) for each, inner in self._running if inner in self._place)
        kind = "cross-attention" if crosses else "self-attention"
        self.calls.attention.append(AttentionRecord(self._location(path, sublayer_kind=kind), largest, entropy))

    @torch.no_grad()
    def _add_activation(self, given: Tensor, output: Tensor, *, in_place: bool) -> None:
        if output.dim() < 2 or given.shape != output.shape:
            return
        before, after = (each.detach().flatten(0, -2).abs() for each in (given, output))
        limit = 0.0 if in_place else PASSED * before  # the input of an activation in place is lost
        location = self._location(self._left)
        self.calls.activations.append(ActivationRecord(location, (after <= limit).all(0), len(before)))

    def _add_dropout(self, probability: float, *, training: bool, path: str | None = None) -> None:
        if training and probability > 0 and self._running:
            location = self._location(path or self._path)
            self.calls.dropouts[location] = max(probability, self.calls.dropouts.get(location, 0.0))


def _is_activation(module: nn.Module) -> bool:
    is_leaf = next(module.children(), None) is None and next(module.parameters(), None) is None
    return is_leaf and bool(ACTIVATION_MODULE.search(type(module).__name__))
