"""Recording any module: repeated layers are found by structure, residual sums by intercepting additions.

    with recording(model) as found:
        loss(model(…)).backward()
    found.stacks, found.notes

Inside a layer the residual stream is traced from the layer's input: a tensor that is added to another of the same size,
and whose sum is on a path to the layer's output, is the stream, and the other tensor is a branch. Norms on that path
belong to the stream, others to branches. So no architecture needs to be known by name; a layer in which no such path is
found is recorded as a whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lamina.diagnosis.recording.attention import SoftmaxTrace
from lamina.diagnosis.recording.own import StackRecords
from lamina.diagnosis.recording.stream_trace import StreamTrace
from lamina.diagnosis.recording.structure import (
    find_norms,
    find_repeated_layers,
    is_cross_attention,
    is_state_space,
    puts_batch_first,
)
from lamina.diagnosis.recording.taps import Taps

ADDITIONS = {"add", "add_", "__add__", "__radd__", "__iadd__"}
ATTENTIONS = {"scaled_dot_product_attention", "multi_head_attention_forward"}
OTHER_STACK = ("context", "encoder_hidden_states", "key_value_states", "memory")
"""The names of arguments through which attention gets the output of another stack."""
ONE_TO_ONE = {"mul", "__mul__", "__rmul__", "div", "__truediv__", "to", "float", "type_as", "clamp", "contiguous"}
ONE_TO_ONE |= {"clone", "dropout"}
"""Functions whose output is still the stream, if no other tensor of its size takes part."""


@contextmanager
def recording(model: nn.Module) -> Iterator[StackRecords]:
    """Record the first pass through the repeated layers of `model`; the backward pass must run inside the `with`."""
    found, taps = StackRecords(), Taps()
    tracer = _Tracer(model, taps)
    with ExitStack() as hooks:
        tracer.hook_into(hooks)
        hooks.enter_context(tracer)
        yield found
    found.notes += taps.close()
    for trace in tracer.traces:
        stack = trace.finish(found.notes)
        if stack is not None:
            stack.real = tracer.real_positions(stack.name, stack.input.value)
            found.stacks.append(stack)


class _Tracer(TorchFunctionMode):
    """Intercepts modules by hooks and the functions between them as a torch function mode."""

    def __init__(self, model: nn.Module, taps: Taps) -> None:
        super().__init__()
        self.model = model
        self.traces = [StreamTrace(layers, taps) for layers in find_repeated_layers(model)]
        self.arguments: Mapping[str, Any] = {}
        self._running = self._over = False
        self._softmax = SoftmaxTrace()

    def hook_into(self, hooks: ExitStack) -> None:
        handles = [
            self.model.register_forward_pre_hook(self._begin, with_kwargs=True),
            self.model.register_forward_hook(self._end),
        ]
        for path, norm in find_norms(self.model):
            handles.append(norm.register_forward_hook(partial(self._add_norm, path)))
        for trace in self.traces:
            for number, member in enumerate(trace.layers.members):
                if member in trace.layers.members[:number]:
                    continue  # a layer that stands in the list several times is hooked once
                enter = partial(self._enter, trace, number)
                called = [member] if not isinstance(member, nn.ModuleList) else [*member.modules()]
                handles += [each.register_forward_pre_hook(enter, with_kwargs=True) for each in called]
                if called == [member]:
                    handles.append(member.register_forward_hook(partial(self._leave, trace, number)))
                for path, inner in member.named_modules():
                    if inner is not member:
                        hook = partial(self._add_module, trace, is_cross_attention(path, inner))
                        handles.append(inner.register_forward_pre_hook(hook, with_kwargs=True))
        for handle in handles:
            hooks.callback(handle.remove)

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        output = function(*arguments, **(options or {}))
        name = getattr(function, "__name__", "")
        attends = self._running and (name in ATTENTIONS or self._softmax.follow(name, arguments, output) is not None)
        if self._running and (name in ADDITIONS or name in ONE_TO_ONE) and isinstance(output, Tensor):
            tensors = [each for each in arguments[:2] if isinstance(each, Tensor)]
            for trace in self.traces:
                trace.add_function(tensors, output, is_sum=name in ADDITIONS)
        if attends:
            for trace in self.traces:
                trace.add_attention()
        return output

    def _begin(self, model: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if not self._over:
            self._running = True
            self.arguments = _by_name(model, arguments, options)

    def _end(self, model: nn.Module, arguments: Any, output: Any) -> None:
        """Stop recording: activation checkpointing may run the layers again in the backward pass."""
        self._running, self._over = False, True

    def _enter(
        self, trace: StreamTrace, number: int, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        x = _first_stream((*arguments, *options.values()))
        if self._running and x is not None:
            trace.enter(number, x)

    def _leave(self, trace: StreamTrace, number: int, module: nn.Module, arguments: Any, output: Any) -> None:
        x = _first_stream(output.values() if isinstance(output, Mapping) else output)
        if self._running and x is not None:
            trace.leave(number, x)

    def _add_module(
        self, trace: StreamTrace, is_cross: bool, module: nn.Module, arguments: Any, options: dict[str, Any]
    ) -> None:
        if is_cross or any(isinstance(options.get(name), Tensor) for name in OTHER_STACK):
            trace.add_cross_attention()
        if is_state_space(module):
            trace.add_state_space()

    def _add_norm(self, path: str, norm: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if self._running and arguments and isinstance(arguments[0], Tensor) and isinstance(output, Tensor):
            for trace in self.traces:
                trace.add_norm(path, norm, arguments[0], output)

    def real_positions(self, stack: str, x: Tensor) -> Tensor | None:
        """Which positions hold a token, from a mask among the model's arguments; None when all do."""
        chosen = None
        for name, mask in self.arguments.items():
            if "mask" not in name or not isinstance(mask, Tensor) or mask.dim() != 2 or mask.is_floating_point():
                continue
            mask = mask if puts_batch_first(self.model) else mask.T
            padding = "padding" in name  # in torch and fairseq true means padding
            decodes = any(word in name for word in ("decoder", "tgt", "target"))
            if mask.shape == x.shape[:-1] and (chosen is None or decodes == ("decoder" in stack)):
                chosen = ~mask.bool() if padding else mask.bool()
        return None if chosen is None or bool(chosen.all()) else chosen.to(x.device)


def _first_stream(values: Any) -> Tensor | None:
    """The first tensor that can be a residual stream: floating point, with at least two dimensions."""
    values = (values,) if isinstance(values, Tensor) else values
    if not isinstance(values, tuple | list | type({}.values())):
        return None
    return next((each for each in values if isinstance(each, Tensor) and _is_stream(each)), None)


def _is_stream(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() >= 2


def _by_name(model: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> Mapping[str, Any]:
    try:
        return inspect.signature(model.forward).bind(*arguments, **options).arguments
    except TypeError:
        return options  # the call will fail with the model's own message
