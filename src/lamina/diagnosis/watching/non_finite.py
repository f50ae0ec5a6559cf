"""Finds the module in which NaN or infinite values begin, while a model is trained.

If the gradient norms of a step are not finite (see `steps`), the forward pass of this step is run again on the same
input, under the same autocast, with a recorder on all modules; if all its outputs are finite, the values began in the
backward pass, and the gradients of the parameters tell where. Where norms are read every few steps only, the weights
have been changed by then, and all that is known are the parameters whose gradients were not finite. A gradient scaler
skips such steps, and then the optimiser's hooks are not called: when several passes were made without a step, the next
pass is recorded as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle

from lamina.diagnosis.recording.passes import random_state_kept, state_restored
from lamina.diagnosis.recording.ranges import NonFinite, RangeRecorder

PASSES_WITHOUT_STEP = 8
"""The number of passes without a step after which a pass is recorded; it doubles with every record, so that the
accumulation of gradients over many passes is recorded a few times only. A scaler that begins at 2¹⁶ may skip the first
few steps of a healthy run."""


@dataclass(frozen=True)
class _Call:
    """The arguments of the model's last forward pass, and the autocast it ran under."""

    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    device: str
    autocast: torch.dtype | None


class NonFiniteTracer:
    """Keeps the arguments of the last pass, and records passes that no step follows."""

    def __init__(
        self,
        model: nn.Module,
        layers: Mapping[str, Sequence[Sequence[nn.Module]]],
        on_found: Callable[[NonFinite, RangeRecorder, bool], None],
    ) -> None:
        """layers: for every stack the modules of every layer.

        on_found: called with the first value that is not finite, the recorder of that pass, and whether steps are
            being skipped.
        """
        self.model, self.layers, self.on_found = model, layers, on_found
        self._device = next((each.device.type for each in model.parameters()), "cpu")
        self._passes, self._next_record = 0, PASSES_WITHOUT_STEP
        self._call: _Call | None = None
        self._recorder: RangeRecorder | None = None
        self._replaying = False
        self._handle: RemovableHandle = model.register_forward_pre_hook(self._before_pass, with_kwargs=True)

    def close(self) -> None:
        self._finish_record()
        self._handle.remove()
        self._call = None

    def before_step(self) -> None:
        """Examine the pass that was recorded because no step followed the passes before it."""
        self._finish_record()

    def trace(self, bad: Collection[str]) -> None:
        """Find where values that are not finite begin, in the step that is about to be taken.

        bad: the modules whose parameters had such gradients before these were clipped.
        """
        recorder = self._replay()
        found = recorder.first_non_finite(bad=bad)
        if found is not None:
            self.on_found(found, recorder, False)

    def after_step(self) -> None:
        self._passes, self._next_record = 0, PASSES_WITHOUT_STEP

    def _before_pass(self, model: nn.Module, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        in_backward = torch._C._current_graph_task_id() != -1
        if self._replaying or in_backward or not torch.is_grad_enabled():
            return
        self._finish_record()
        self._passes += 1
        device = self._device
        autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        self._call = _Call(arguments, options, device, autocast)
        if self._passes > self._next_record:
            self._next_record *= 2
            self._recorder = RangeRecorder(self.model, self.layers).__enter__()

    def _finish_record(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
            found = recorder.first_non_finite()
            if found is not None:
                self.on_found(found, recorder, True)

    def _replay(self) -> RangeRecorder:
        """The recorder of the forward pass, run again; empty where there was none or weights are sharded."""
        recorder = RangeRecorder(self.model, self.layers)
        call = self._call
        if call is None or any(isinstance(each, DTensor) for each in self.model.parameters()):
            return recorder
        self._replaying = True
        try:
            gradients = [(each, each.grad) for each in self.model.parameters()]
            with random_state_kept(), state_restored(self.model), torch.no_grad(), recorder:
                for parameter, gradient in gradients:
                    parameter.grad = gradient  # they tell where the backward pass went wrong
                with torch.autocast(call.device, dtype=call.autocast, enabled=call.autocast is not None):
                    self.model(*call.arguments, **call.options)
        finally:
            self._replaying = False
        return recorder


def lowest_parameters(model: nn.Module, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> list[nn.Parameter]:
    """The smallest trained parameter in the first trained layer of every stack; of the model, where there is none."""
    found = []
    for modules in layers.values():
        trained = [
            [each for module in layer for each in module.parameters() if each.requires_grad] for layer in modules
        ]
        first = next((each for each in trained if each), None)
        if first is not None:
            found.append(min(first, key=lambda each: each.numel()))
    return found or [each for each in model.parameters() if each.requires_grad][:1]
