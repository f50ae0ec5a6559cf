"""Watching a model in any training loop.

    with Watch(model, optimiser, every=100) as watch:
        for batch in batches:
            loss = compute_loss(model(batch))
            loss.backward()
            watch.record(loss)  # not needed if the model's output has a field `loss`
            optimiser.step()
            optimiser.zero_grad()
    watch.diagnosis()

At every fifth step up to the fiftieth, and then at every hundredth, it measures the norms of gradients and of updates,
|W_{t+1} − W_t| ÷ |W_t|, by layer and kind of matrix, cross-attention's apart (Liu et al. 2020, figures 5 and 11), the
conditioning κ of Adam's update (Xie et al. 2023, Theorem 3.2), and the residual stream after every layer. Updates
are compared with those before them, each divided by its learning rate, so that a schedule does not cause alarms: when
many leave their bands (see `alarms`), there is a warning; the loss may show it later, or never. There is also a warning
when the gradient of a lower layer of the last stack has vanished, which precedes a loss that stops falling.

At every step, observed or not, the loss, the gradient norm and the learning rate are followed (see `steps`). A spike
(see `spikes`) and a jump of the learning rate cause a warning; the step of a spike is observed as well. If a gradient
is NaN or infinite, the first module with such values is named (see `non_finite`).

Training is not changed: weights end bit-identical with and without a watch. An observed step needs one more copy of the
weights. Models under DDP or FSDP2 are watched as they are, in all processes alike. Not supported: FSDP1, and optimisers
that shard their own state. Not measured: κ of sharded models, and streams of layers that torch.compile compiled before
the watch began.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import isfinite
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from lamina.diagnosis.checks.vanished import Vanished
from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.gradient_coverage import GradientCoverage
from lamina.diagnosis.measures.module_ranges import ModuleRanges
from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.recording.layers import find_layers, unwrap
from lamina.diagnosis.recording.parameters import explain_gradients
from lamina.diagnosis.recording.ranges import NonFinite, RangeRecorder
from lamina.diagnosis.results import Diagnosis, ModelFacts
from lamina.diagnosis.watching.alarms import (
    Alarm,
    LearningRateAlarm,
    NonFiniteAlarm,
    SpikeAlarm,
    UpdateBands,
    update_alarm,
    vanished_gradient_alarm,
)
from lamina.diagnosis.watching.events import Events
from lamina.diagnosis.watching.history import diagnose_history
from lamina.diagnosis.watching.non_finite import NonFiniteTracer, lowest_parameters
from lamina.diagnosis.watching.observation import Observation, StepTrace
from lamina.diagnosis.watching.probes import StepProbe, StreamProbe
from lamina.diagnosis.watching.steps import BatchSource, StepRecorder, StepValues
from lamina.errors import UserError

EARLY_STEPS, EARLY_EVERY = 50, 5
"""Up to this step a model is observed at least this often: what goes wrong, often goes wrong at once."""


def warn(alarm: Alarm) -> None:
    warnings.warn(str(alarm), stacklevel=2)


_WATCHED: WeakSet[Optimizer] = WeakSet()
"""The optimisers that a watch observes at present."""


class Watch:
    """A context manager that observes the steps of an optimiser; `history` has the observations."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer,
        *,
        every: int = 100,
        step: int = 0,
        history: Sequence[Observation] = (),
        options: DiagnoseOptions | None = None,
        on_warning: Callable[[Alarm], None] = warn,
        read_every: int | None = None,
    ) -> None:
        """Prepare a watch of the model.

        every: steps of the optimiser between two observations; 0 for none. Up to step 50 every fifth is observed.
        step: the number of steps taken before, if training is resumed.
        history: the observations of these steps, if training is resumed.
        on_warning: called as soon as something goes wrong; Python's `warnings` by default.
        read_every: steps after which losses and gradient norms are read from the device, which it has to be waited for;
            None for 1 on a CPU and 10 elsewhere. With 1 the module in which NaN values begin is found on any device.
        """
        _check_arguments(model, optimiser)
        if every < 0:
            raise UserError(f"every is the number of steps between two observations, 0 for none, not {every}")
        self.model, self.optimiser, self.every, self.step = unwrap(model), optimiser, every, step
        self.options, self.on_warning = options or DiagnoseOptions(), on_warning
        self.history = list(history)
        self._layers = find_layers(self.model)
        self._output_stack = self._layers.output_stack
        self._bands = UpdateBands(self.options.band)
        self._events = Events(self.options.spikes)
        for observation in history:  # the bands follow from the observations and are not stored
            self._bands.add(observation.matrices)
            self._events.resume(observation)
        self._handles: list[RemovableHandle] = []
        self._streams: StreamProbe | None = None
        self._probe: StepProbe | None = None
        self._recorder: RangeRecorder | None = None
        self._tracer: NonFiniteTracer | None = None
        self._steps: StepRecorder | None = None
        self._read_every = read_every
        self._not_finite = False

    def __enter__(self) -> Self:
        if self.every:
            if self.optimiser in _WATCHED:
                raise UserError("this optimiser is watched already; leave the other watch first, or call its close()")
            _WATCHED.add(self.optimiser)
            layers = self._layers.layers
            self._tracer = NonFiniteTracer(self.model, layers, self._add_non_finite)
            lowest = lowest_parameters(self.model, layers)
            self._steps = StepRecorder(self.model, self.optimiser, lowest, self._read_every)
            self._events.locate(self._steps, layers)
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
        """Remove all hooks from the model and the optimiser; the history stays."""
        if self._steps is not None:
            self._follow(self._steps.read())
            _WATCHED.discard(self.optimiser)
        for handle in self._handles:
            handle.remove()
        for each in (self._tracer, self._streams, self._recorder, self._steps):
            if each is not None:
                each.close()
        self._handles, self._streams, self._probe, self._recorder = [], None, None, None
        self._tracer = self._steps = None
        self.complete_trace()

    def record(
        self, loss: float | Tensor | None = None, *, gradient_norm: float | None = None, batch: BatchSource = None
    ) -> None:
        """Tell the watch about the step that comes next; called before the step of the optimiser.

        loss: replaces the field `loss` of the model's output.
        gradient_norm: the norm of the whole gradient before clipping, if it is known.
        batch: the indices of the batch's examples; else a batch is identified by the hash of the model's arguments.
        """
        if self._steps is not None:
            self._steps.record(loss, gradient_norm, batch)

    def complete_trace(self) -> None:
        """Add the losses and norms of the steps since the last observation to it."""
        if self.history:
            last, rest = self.history[-1], StepTrace.of(self._events.take_steps())
            self.history[-1] = last.model_copy(update={"trace": last.trace + rest})

    def values(self) -> dict[str, float]:
        """The values of the last step under flat names, for a log; empty unless that step was watched."""
        fresh = bool(self.history) and self.history[-1].step == self.step
        return self.history[-1].values() if fresh else {}

    def diagnosis(self, name: str = "") -> Diagnosis:
        """The diagnosis of the history: series over steps, with findings."""
        kind = type(self.model).__name__
        return diagnose_history(
            self.history,
            name=name or kind,
            model=kind,
            schemes=self._layers.schemes,
            facts=ModelFacts(
                layers={stack: len(modules) for stack, modules in self._layers.layers.items()},
                parameters=sum(each.numel() for each in self.model.parameters()),
                trained=sum(each.numel() for each in self.model.parameters() if each.requires_grad),
            ),
            thresholds=self.options.thresholds,
        )

    # Around a step of the optimiser. A step that is due is watched from its forward pass on.

    def _prepare(self) -> None:
        upcoming = self.step + 1
        every = min(self.every, EARLY_EVERY) if upcoming <= EARLY_STEPS else self.every
        if upcoming % every == 0:
            self._streams = StreamProbe(self._layers.layers)
            self._recorder = RangeRecorder(self.model, self._layers.layers).__enter__()

    def _before_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        assert self._steps is not None
        assert self._tracer is not None
        if self._recorder is not None:
            self._recorder.close()
        self._tracer.before_step()
        self._follow(self._steps.before_step(self.step + 1, read=self._streams is not None))
        if self._streams is not None or self._events.spikes:
            self._probe = StepProbe(optimiser, self._layers.matrices)

    def _follow(self, steps: Sequence[StepValues]) -> None:
        """Look for spikes, jumps of the learning rate and values that are not finite in steps that were read."""
        for values in steps:
            if values.is_finite:
                self._not_finite = False
            elif not self._not_finite:
                self._trace_non_finite(values)
            spike, jump = self._events.add(values, observed_at=self.step + 1)
            if spike is not None:
                self.on_warning(SpikeAlarm(spike))
            if jump is not None and jump.after > jump.before:
                self.on_warning(LearningRateAlarm(jump))

    def _trace_non_finite(self, values: StepValues) -> None:
        assert self._steps is not None
        assert self._tracer is not None
        if values.step == self.step + 1:
            bad = [path for path, norm in zip(self._steps.paths, values.norms, strict=True) if not isfinite(norm)]
            self._tracer.trace({path.rpartition(".")[0] for path in bad})
        else:  # the weights have been changed since
            found = self._events.first_non_finite(values, self._steps)
            self._add_non_finite(found, RangeRecorder(self.model, self._layers.layers), False, values.step)

    def _after_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        self.step += 1
        if self._tracer is not None:
            self._tracer.after_step()
        probe, streams, recorder = self._probe, self._streams, self._recorder
        if probe is not None:
            self._streams = self._probe = self._recorder = None
            self._add(self._observe(probe, streams, recorder))
        self._prepare()

    def _observe(self, probe: StepProbe, streams: StreamProbe | None, recorder: RangeRecorder | None) -> Observation:
        """The observation of a step; one that is observed for its spike alone has neither streams nor ranges."""
        matrices = probe.finish()
        conditioning, reason = probe.conditioning()
        outside = self._bands.add(matrices)
        observation = Observation(
            step=self.step,
            trace=StepTrace.of(self._events.take_steps()),
            spikes=self._events.take_spikes(),
            learning_rate_jumps=self._events.take_jumps(),
            matrices=matrices,
            streams=() if streams is None else streams.finish(),
            conditioning=conditioning,
            no_conditioning=reason,
            coverage=None if recorder is None else self._coverage(probe, recorder),
            ranges=None if recorder is None else _ranges(recorder),
            output_stack=self._output_stack,
            outside=outside,
        )
        unstable = self._bands.is_unstable(outside, observation.num_updates)
        return observation.model_copy(update={"unstable": unstable})

    def _coverage(self, probe: StepProbe, recorder: RangeRecorder) -> Measurement | None:
        """Which parameters this step trained; None where layers are compiled, so that no module was seen to run."""
        if not recorder.ran:
            return None
        optimised = set(probe.groups)
        parameters = explain_gradients(self.model, self._layers.layers, recorder.ran, optimised=optimised)
        measure = GradientCoverage()
        return measure.conclude(measure.of(parameters))

    def _add_non_finite(
        self, found: NonFinite, recorder: RangeRecorder, skipped: bool, step: int | None = None
    ) -> None:
        """Record the module in which values that are not finite begin, and warn, once until they are finite again."""
        late = step is not None
        step = step if step is not None else self.step if skipped else self.step + 1
        if self._not_finite:
            return
        self._not_finite = True
        reason = "gradients were not finite"
        ranges = ModuleRanges().of(recorder.ranges, found)
        self.history.append(
            Observation(step=step, ranges=ranges, no_conditioning=reason, output_stack=self._output_stack)
        )
        self.on_warning(NonFiniteAlarm(step, found, skipped, late))

    def _add(self, observation: Observation) -> None:
        """Add to the history, and warn when updates leave their bands or a gradient vanishes, once until it ends."""
        before = self.history[-1] if self.history else None
        self.history.append(observation)
        threshold = self.options.thresholds.of(Vanished()).share
        vanished = vanished_gradient_alarm(observation, threshold)
        if vanished is not None and (before is None or vanished_gradient_alarm(before, threshold) is None):
            self.on_warning(vanished)
        left = None if self._not_finite else update_alarm(observation)  # the module with NaN values was named
        if left is not None and (before is None or not before.unstable):
            self.on_warning(left)


def _ranges(recorder: RangeRecorder) -> Measurement | None:
    return ModuleRanges().of(recorder.ranges, recorder.first_non_finite()) if recorder.ranges else None


def _check_arguments(model: object, optimiser: object) -> None:
    """Refuse what is no model and its optimiser, such as the two in the other order."""
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise UserError(f"the first argument of a watch is a model, not {what}: lamina.watch(model, optimiser)")
    if not hasattr(optimiser, "register_step_pre_hook") or not hasattr(optimiser, "param_groups"):
        what = f"a {type(optimiser).__name__}"
        raise UserError(f"the second argument of a watch is an optimiser of torch, not {what}")
    held = {id(each) for group in optimiser.param_groups for each in group["params"]}
    if not any(id(each) in held for each in model.parameters()):
        raise UserError(
            f"the optimiser holds no parameter of {type(model).__name__}; build it from those of the watched model: "
            "AdamW(model.parameters(), …)"
        )
