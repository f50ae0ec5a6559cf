"""Watching a model in any training loop.

    with Watch(model, optimiser, every=100) as watch:
        for batch in batches:
            loss(model(batch)).backward()
            optimiser.step()
            optimiser.zero_grad()
    watch.diagnosis()

At every hundredth step of the optimiser, and at no other, it measures the norms of gradients and of updates,
|W_{t+1} − W_t| ÷ |W_t|, by layer and kind of matrix, cross-attention's apart (Liu et al. 2020, figures 5 and 11), the
conditioning κ of Adam's update (Xie et al. 2023, Theorem 3.2), and the residual stream after every layer. Updates
are compared with those before them, each divided by its learning rate, so that a schedule does not cause alarms: when
many leave their bands (see `alarms`), there is a warning; the loss may show it later, or never. There is also a warning
when the gradient of a lower layer of the last stack has vanished, which precedes a loss that stops falling. At every
step, watched or not, the first module with NaN or infinite values is named (see `non_finite`).

Training is not changed: weights end bit-identical with and without a watch. A watched step needs one more copy of the
weights. Models under DDP or FSDP2 are watched as they are, in all processes alike. Not supported: FSDP1, and optimisers
that shard their own state. Not measured: κ of sharded models, and streams of layers that torch.compile compiled before
the watch began.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from lamina.diagnosis.checks import CheckThresholds, run_checks
from lamina.diagnosis.checks.vanished import Vanished
from lamina.diagnosis.examine import lacking
from lamina.diagnosis.measurement import Measurement, NotMeasured, Stage
from lamina.diagnosis.measures import measures_that_need, take
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.gradient_coverage import GradientCoverage
from lamina.diagnosis.measures.module_ranges import ModuleRanges
from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.recording.layers import find_layers, unwrap
from lamina.diagnosis.recording.parameters import explain_gradients
from lamina.diagnosis.recording.ranges import NonFinite, RangeRecorder
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.watching.alarms import Alarm, NonFiniteAlarm, UpdateBands, update_alarm, vanished_gradient_alarm
from lamina.diagnosis.watching.non_finite import NonFiniteTracer
from lamina.diagnosis.watching.observation import Observation
from lamina.diagnosis.watching.probes import StepProbe, StreamProbe
from lamina.errors import UserError


def warn(alarm: Alarm) -> None:
    warnings.warn(str(alarm), stacklevel=2)


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
    ) -> None:
        """Prepare a watch of the model.

        every: steps of the optimiser between two observations; 0 for none.
        step: the number of steps taken before, if training is resumed.
        history: the observations of these steps, if training is resumed.
        on_warning: called when updates leave their bands or a gradient vanishes; Python's `warnings` by default.
        """
        if every < 0:
            raise UserError(f"every is the number of steps between two observations, 0 for none, not {every}")
        self.model, self.optimiser, self.every, self.step = unwrap(model), optimiser, every, step
        self.options, self.on_warning = options or DiagnoseOptions(), on_warning
        self.history = list(history)
        self._layers = find_layers(self.model)
        self._output_stack = self._layers.output_stack
        self._bands = UpdateBands(self.options.band)
        for observation in history:  # the bands follow from the observations and are not stored
            self._bands.add(observation.matrices)
        self._handles: list[RemovableHandle] = []
        self._streams: StreamProbe | None = None
        self._probe: StepProbe | None = None
        self._recorder: RangeRecorder | None = None
        self._tracer: NonFiniteTracer | None = None
        self._not_finite = False

    def __enter__(self) -> Self:
        if self.every:
            self._tracer = NonFiniteTracer(self.model, self._layers.layers, self._add_non_finite)
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
        for handle in self._handles:
            handle.remove()
        for each in (self._tracer, self._streams, self._recorder):
            if each is not None:
                each.close()
        self._handles, self._streams, self._probe, self._recorder, self._tracer = [], None, None, None, None

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
            thresholds=self.options.thresholds,
        )

    # Around a step of the optimiser. A step that is due is watched from its forward pass on.

    def _prepare(self) -> None:
        if (self.step + 1) % self.every == 0:
            self._streams = StreamProbe(self._layers.layers)
            self._recorder = RangeRecorder(self.model, self._layers.layers).__enter__()

    def _before_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        if self._recorder is not None:
            self._recorder.close()
        if self._tracer is not None and self._tracer.before_step():
            self._not_finite = False
        if self._streams is not None:
            self._probe = StepProbe(optimiser, self._layers.matrices)

    def _after_step(self, optimiser: Optimizer, arguments: Any, keywords: Any) -> None:
        self.step += 1
        if self._tracer is not None:
            self._tracer.after_step()
        probe, streams, recorder = self._probe, self._streams, self._recorder
        if probe is not None and streams is not None and recorder is not None:
            self._streams = self._probe = self._recorder = None
            self._add(self._observe(probe, streams, recorder))
        self._prepare()

    def _observe(self, probe: StepProbe, streams: StreamProbe, recorder: RangeRecorder) -> Observation:
        matrices = probe.finish()
        conditioning, reason = probe.conditioning()
        outside = self._bands.add(matrices)
        observation = Observation(
            step=self.step,
            matrices=matrices,
            streams=streams.finish(),
            conditioning=conditioning,
            no_conditioning=reason,
            coverage=self._coverage(probe, recorder),
            ranges=_ranges(recorder),
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

    def _add_non_finite(self, found: NonFinite, recorder: RangeRecorder, skipped: bool) -> None:
        """Record the module in which values that are not finite begin, and warn, once until they are finite again."""
        step = self.step if skipped else self.step + 1
        if self._not_finite:
            return
        self._not_finite = True
        reason = "gradients were not finite"
        ranges = ModuleRanges().of(recorder.ranges, found)
        self.history.append(
            Observation(step=step, ranges=ranges, no_conditioning=reason, output_stack=self._output_stack)
        )
        self.on_warning(NonFiniteAlarm(step, found, skipped))

    def _add(self, observation: Observation) -> None:
        """Add to the history, and warn when updates leave their bands or a gradient vanishes, once until it ends."""
        before = self.history[-1] if self.history else None
        self.history.append(observation)
        threshold = self.options.thresholds.of(Vanished()).share
        vanished = vanished_gradient_alarm(observation, threshold)
        if vanished is not None and (before is None or vanished_gradient_alarm(before, threshold) is None):
            self.on_warning(vanished)
        left = update_alarm(observation)
        if left is not None and (before is None or not before.unstable):
            self.on_warning(left)


def _ranges(recorder: RangeRecorder) -> Measurement | None:
    return ModuleRanges().of(recorder.ranges, recorder.first_non_finite()) if recorder.ranges else None


def diagnose_history(
    history: Sequence[Observation],
    *,
    name: str,
    model: str,
    schemes: Sequence[str] = (),
    thresholds: CheckThresholds | None = None,
) -> Diagnosis:
    """Every measure that can be taken from observations, and the findings of the checks."""
    measures = measures_that_need("history")
    if history:
        taken = [take(each, Evidence(history=history)) for each in measures]
    else:
        reason = "no step was watched: fewer steps than `every` were taken"
        taken = [NotMeasured(key=each.key, reason=reason) for each in measures]
    measurements = [each for each in taken if isinstance(each, Measurement)]
    not_measured = [each for each in taken if isinstance(each, NotMeasured)]
    return Diagnosis(
        name=name,
        model=model,
        schemes=tuple(schemes),
        output_stack=history[-1].output_stack if history else None,
        stage=Stage(name="step", step=history[-1].step) if history else Stage(name="given"),
        spread_over="steps",
        repeats=max(1, len(history)),
        findings=run_checks(
            measurements, [*not_measured, *lacking({"history"})], schemes=schemes, thresholds=thresholds
        ),
        measurements=tuple(measurements),
        not_measured=tuple(not_measured),
    )
