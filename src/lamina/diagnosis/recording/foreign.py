"""Recording any module: the repeated layers are found by structure, the residual sums by watching additions.

    with recording(model) as recorder:
        loss(model(…)).backward()
    recorder.stacks, recorder.notes

Inside a layer the stream is followed from its input: a tensor that is added to something of its own size, and whose
sum leads on to the layer's output, is a stream that meets a branch. Norms on that way belong to the stream, others to
branches. So no architecture needs to be known by name; a layer in which no such way is found is recorded as a whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lamina.diagnosis.recording.own import Recorder
from lamina.diagnosis.recording.stream_trace import Trail
from lamina.diagnosis.recording.structure import Chain, find_chains, find_norms, is_cross_attention, puts_batch_first
from lamina.diagnosis.recording.taps import Eyes

ADDITIONS = {"add", "add_", "__add__", "__radd__", "__iadd__"}
ATTENTIONS = {"scaled_dot_product_attention", "softmax", "multi_head_attention_forward"}
OTHER_STACK = ("context", "encoder_hidden_states", "key_value_states", "memory")
"""Arguments by which attention gets the output of another stack."""
ONE_TO_ONE = {"mul", "__mul__", "__rmul__", "div", "__truediv__", "to", "float", "type_as", "clamp", "contiguous"}
ONE_TO_ONE |= {"clone", "dropout"}
"""What leaves a stream a stream, where no other tensor of its size takes part."""


@contextmanager
def recording(model: nn.Module) -> Iterator[Recorder]:
    """Record the first pass through the repeated layers of `model`; the backward pass belongs inside the `with`."""
    recorder, eyes = Recorder(), Eyes()
    watch = _Watch(model, find_chains(model), eyes)
    with ExitStack() as hooks:
        watch.hook_into(hooks)
        hooks.enter_context(watch)
        yield recorder
    recorder.notes += eyes.close()
    for trail in watch.trails:
        stack = trail.finish(recorder.notes)
        if stack is not None:
            stack.real = watch.real_positions(stack.name, stack.input.value)
            recorder.stacks.append(stack)


class _Watch(TorchFunctionMode):
    """Sees the modules by hooks and the functions between them by being the mode they are called in."""

    def __init__(self, model: nn.Module, chains: list[Chain], eyes: Eyes) -> None:
        super().__init__()
        self.model = model
        self.trails = [Trail(chain, eyes) for chain in chains]
        self.arguments: Mapping[str, Any] = {}
        self._running = self._over = False

    def hook_into(self, hooks: ExitStack) -> None:
        handles = [
            self.model.register_forward_pre_hook(self._begin, with_kwargs=True),
            self.model.register_forward_hook(self._end),
        ]
        for path, norm in find_norms(self.model):
            handles.append(norm.register_forward_hook(partial(self._note_norm, path)))
        for trail in self.trails:
            for number, member in enumerate(trail.chain.members):
                enter = partial(self._enter, trail, number)
                called = [member] if not isinstance(member, nn.ModuleList) else [*member.modules()]
                handles += [each.register_forward_pre_hook(enter, with_kwargs=True) for each in called]
                if called == [member]:
                    handles.append(member.register_forward_hook(partial(self._leave, trail, number)))
                for path, inner in member.named_modules():
                    if inner is not member:
                        note = partial(self._note_crossing, trail, is_cross_attention(path, inner))
                        handles.append(inner.register_forward_pre_hook(note, with_kwargs=True))
        for handle in handles:
            hooks.callback(handle.remove)

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        output = function(*arguments, **(options or {}))
        name = getattr(function, "__name__", "")
        if self._running and (name in ADDITIONS or name in ONE_TO_ONE) and isinstance(output, Tensor):
            tensors = [each for each in arguments[:2] if isinstance(each, Tensor)]
            for trail in self.trails:
                trail.see_function(tensors, output, adds=name in ADDITIONS)
        elif self._running and name in ATTENTIONS:
            for trail in self.trails:
                trail.see_attention()
        return output

    def _begin(self, model: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if not self._over:
            self._running = True
            self.arguments = _by_name(model, arguments, options)

    def _end(self, model: nn.Module, arguments: Any, output: Any) -> None:
        """What runs later, as when activation checkpointing computes layers again, is not recorded."""
        self._running, self._over = False, True

    def _enter(
        self, trail: Trail, number: int, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        x = _first_stream((*arguments, *options.values()))
        if self._running and x is not None:
            trail.enter(number, x)

    def _leave(self, trail: Trail, number: int, module: nn.Module, arguments: Any, output: Any) -> None:
        x = _first_stream(output.values() if isinstance(output, Mapping) else output)
        if self._running and x is not None:
            trail.leave(number, x)

    def _note_crossing(
        self, trail: Trail, by_name: bool, module: nn.Module, arguments: Any, options: dict[str, Any]
    ) -> None:
        if by_name or any(isinstance(options.get(name), Tensor) for name in OTHER_STACK):
            trail.see_cross_attention()

    def _note_norm(self, path: str, norm: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if self._running and arguments and isinstance(arguments[0], Tensor) and isinstance(output, Tensor):
            for trail in self.trails:
                trail.see_norm(path, norm, arguments[0], output)

    def real_positions(self, stack: str, x: Tensor) -> Tensor | None:
        """From a mask among the model's arguments that has the stream's shape; None when every position is real."""
        chosen = None
        for name, mask in self.arguments.items():
            if "mask" not in name or not isinstance(mask, Tensor) or mask.dim() != 2 or mask.is_floating_point():
                continue
            mask = mask if puts_batch_first(self.model) else mask.T
            padding = "padding" in name  # torch and fairseq mark what is not there
            decodes = any(word in name for word in ("decoder", "tgt", "target"))
            if mask.shape == x.shape[:-1] and (chosen is None or decodes == ("decoder" in stack)):
                chosen = ~mask.bool() if padding else mask.bool()
        return None if chosen is None or bool(chosen.all()) else chosen.to(x.device)


def _first_stream(values: Any) -> Tensor | None:
    """The first tensor that can be a stream: floating, with positions and channels."""
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
        return options  # the model will say what is wrong with them
