"""Watching a model while anybody's own loop trains it.

    with Watch(model, optimiser, every=100) as watch:
        for batch in batches:
            loss(model(batch)).backward()
            optimiser.step()
            optimiser.zero_grad()
    watch.diagnosis()

At every hundredth step of the optimiser, and at no other, it notes the norms of gradients and of updates,
|W_{t+1} − W_t| ÷ |W_t|, by layer and kind of matrix, cross-attention's apart (Liu et al. 2020, figures 5 and 11), the
condition κ of Adam's update (Xie et al. 2023, Theorem 3.2), and the size of the stream after every layer. Updates are
compared with those before them, each divided by its learning rate, so that a schedule does not look like trouble: when
they leave their band (see `band`), a warning says so; the loss may show it later, or never. So does one when the
gradient of a lower layer of the last stack has vanished, which comes before a loss that stays where it is.

Nothing is changed: weights end bit-identical with and without a watch. A watched step needs one more copy of the
weights. Models under DDP or FSDP2 are watched as they are, in all processes alike. Not supported: FSDP1, and optimisers
that shard their own state. Not seen: κ of sharded models, and streams of layers that torch.compile compiled before the
watch began.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import TracebackType
from typing import Any, Self

from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.recording.cross_attention import set_apart
from lamina.diagnosis.recording.layers import find_layers, unwrap
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.watching.band import Band
from lamina.diagnosis.watching.history import diagnose_history, last_stack, weakest_by_stack
from lamina.diagnosis.watching.observation import Departure, Look, Trouble, Vanished
from lamina.diagnosis.watching.step_probe import StepProbe, StepSizes, matrix_label
from lamina.diagnosis.watching.stream_probe import StreamProbe
from lamina.errors import UserError


def warn(trouble: Trouble) -> None:
    warnings.warn(str(trouble), stacklevel=2)


class Watch:
    """A context manager; `history` holds what was seen."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer,
        *,
        every: int = 100,
        step: int = 0,
        history: Sequence[Look] = (),
        options: DiagnoseOptions | None = None,
        on_warning: Callable[[Trouble], None] = warn,
    ) -> None:
        """
        every: steps of the optimiser between two looks; 0 never looks.
        step: how many steps were taken before, where training is resumed, …
        history: … and what was seen at them; see `look`.
        on_warning: called when updates leave their band or a gradient vanishes; Python's `warnings` by default.
        """
        if every < 0:
            raise UserError(f"every is the number of steps between two looks, 0 for none, not {every}")
        self.model, self.optimiser, self.every, self.step = unwrap(model), optimiser, every, step
        self.options, self.on_warning = options or DiagnoseOptions(), on_warning
        self.history = list(history)
        self._found = find_layers(self.model)
        self._matrices = set_apart(self.model, self._found.matrices)
        self._homes = {
            matrix_label(name): (name.stack, name.layer, name.kind)
            for name in (each.name for each in self._matrices)
            if name.layer is not None
        }
        self._bands: dict[str, Band] = defaultdict(lambda: Band(self.options.band))
        for look in history:  # bands follow from what was seen, and need not be kept
            self._outside(look.sizes)
        self._handles: list[RemovableHandle] = []
        self._streams: StreamProbe | None = None
        self._probe: StepProbe | None = None

    def __enter__(self) -> Self:
        if self.every:
            self._handles = [
                self.optimiser.register_step_pre_hook(self._before_step),
                self.optimiser.register_step_post_hook(self._after_step),
            ]
            self._prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the model and of the optimiser; the history stays."""
        for handle in self._handles:
            handle.remove()
        if self._streams is not None:
            self._streams.close()
        self._handles, self._streams, self._probe = [], None, None

    def values(self) -> dict[str, float]:
        """What the last step showed, flat, for a log; empty unless that step was watched."""
        fresh = bool(self.history) and self.history[-1].step == self.step
        return self.history[-1].values() if fresh else {}

    def diagnosis(self, name: str = "") -> Diagnosis:
        """The history as series over steps, with verdicts."""
        kind = type(self.model).__name__
        return diagnose_history(
            self.history,
            self._homes,
            name=name or kind,
            model=kind,
            schemes=self._found.schemes,
            options=self.options.verdicts,
        )

    # Around a step of the optimiser: what is due is looked at from the forward pass on.

    def _prepare(self) -> None:
        if (self.step + 1) % self.every == 0:
            self._streams = StreamProbe(self._found.layers)

    def _before_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        if self._streams is not None:
            self._probe = StepProbe(optimiser, self._matrices)

    def _after_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        self.step += 1
        if self._streams is not None and self._probe is not None:
            sizes, streams = self._probe.finish(), self._streams.finish()
            self._streams = self._probe = None
            outside = self._outside(sizes)
            departed = self._is_trouble(outside, len(sizes.updates))
            self._note(Look(step=self.step, sizes=sizes, streams=streams, outside=outside, departed=departed))
        self._prepare()

    def _outside(self, sizes: StepSizes) -> dict[str, float]:
        """Every update at its rate, against those before it."""
        found = {
            name: self._bands[name].follow(update / sizes.rates[name])
            for name, update in sizes.updates.items()
            if sizes.rates[name]
        }
        return {name: times for name, times in found.items() if times is not None}

    def _is_trouble(self, outside: Mapping[str, float], total: int) -> bool:
        """Single updates leave their band in any training; many at once, or one that is not finite, are trouble."""
        broken = not all(map(isfinite, outside.values()))
        return broken or (bool(outside) and len(outside) >= self.options.band.share * total)

    def _vanished(self, look: Look) -> Vanished | None:
        """In the stack from which the loss is read."""
        stack = last_stack(self._homes)
        found = weakest_by_stack(look, self._homes).get(stack) if stack else None
        if stack is None or found is None or found.share >= self.options.verdicts.vanished:
            return None
        return Vanished(look.step, stack, found.layer + 1, found.last + 1, found.share)

    def _note(self, look: Look) -> None:
        """Warn when updates leave, or a gradient vanishes; not as long as they stay away."""
        before = self.history[-1] if self.history else None
        self.history.append(look)
        vanished = self._vanished(look)
        if vanished is not None and (before is None or self._vanished(before) is None):
            self.on_warning(vanished)
        had_departed = before is not None and before.departed
        if look.departed and not had_departed:
            matrix, times = look.furthest
            self.on_warning(Departure(look.step, matrix, times, len(look.outside), len(look.sizes.updates)))
