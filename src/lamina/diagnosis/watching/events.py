"""What happens in single steps of a watch: spikes of the loss and the gradient norm, and jumps of the learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np
import torch
from torch import nn

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.recording.ranges import NonFinite
from lamina.diagnosis.watching.observation import Observation
from lamina.diagnosis.watching.spikes import (
    LearningRateJump,
    Spike,
    SpikeDetector,
    SpikeOptions,
    SpikeParameter,
    SpikeQuantity,
    UsualNorms,
    find_excess,
    moments,
)
from lamina.diagnosis.watching.steps import StepRecorder, StepValues

JUMP = 2.0001
"""The least factor of a jump between two steps; at the second step of a linear warm-up the learning rate doubles."""


class Events:
    """Follows the steps of a watch, and keeps those since the last observation."""

    def __init__(self, options: SpikeOptions) -> None:
        self.spikes: list[Spike] = []
        """The spikes since the last observation."""
        self._detectors: dict[SpikeQuantity, SpikeDetector] = {
            "loss": SpikeDetector(options),
            "gradient norm": SpikeDetector(options),
        }
        self._usual = UsualNorms(options)
        self._jumps: list[LearningRateJump] = []
        self._steps: list[StepValues] = []
        self._learning_rate = nan
        self._recorder: StepRecorder | None = None
        self._locations: list[Location] = []

    def resume(self, observation: Observation) -> None:
        """Add the steps of an earlier observation, which were looked through when they were taken."""
        trace = observation.trace
        for loss, norm, rate in zip(trace.losses, trace.gradient_norms, trace.learning_rates, strict=True):
            self._detectors["loss"].add(nan if loss is None else loss)
            self._detectors["gradient norm"].add(norm)
            self._learning_rate = nan if rate is None else rate

    def locate(self, recorder: StepRecorder, layers: Mapping[str, Sequence[Sequence[nn.Module]]]) -> None:
        """Find the stack and layer of every parameter whose steps will be added."""
        places = {
            id(parameter): (stack, number)
            for stack, modules in layers.items()
            for number, layer in enumerate(modules, 1)
            for module in layer
            for parameter in module.parameters()
        }
        self._recorder = recorder
        self._locations = []
        for path, parameter in zip(recorder.paths, recorder.parameters, strict=True):
            stack, layer = places.get(id(parameter), (None, None))
            self._locations.append(Location(stack=stack, layer=layer, module=path))

    def add(self, values: StepValues, observed_at: int) -> tuple[Spike | None, LearningRateJump | None]:
        """Add a step; returns the spike and the jump that happened in it."""
        loss = nan if values.loss is None else values.loss
        found: dict[SpikeQuantity, float] = {"loss": loss, "gradient norm": values.gradient_norm}
        usual = {quantity: self._detectors[quantity].add(value) for quantity, value in found.items()}
        spike = None
        for quantity, before in usual.items():
            if before is not None and spike is None:  # of the loss, if both spike
                spike = self._record(quantity, found[quantity], before, values, observed_at)
                self.spikes.append(spike)
        self._usual.add(values.norms)
        self._steps.append(values)
        return spike, self._jump(values)

    def _record(
        self,
        quantity: SpikeQuantity,
        value: float,
        before: tuple[float, float],
        values: StepValues,
        observed_at: int,
    ) -> Spike:
        assert self._recorder is not None
        usual = self._usual.mean(values.norms)
        location, share, parameters = find_excess(values.norms, usual, self._locations)
        return Spike(
            step=values.step,
            quantity=quantity,
            value=value,
            mean=before[0],
            deviation=before[1],
            location=location,
            layer_share=share,
            parameters=tuple(
                SpikeParameter(
                    location=self._locations[at],
                    share=part,
                    gradient_norm=values.norms[at],
                    usual_norm=usual[at],
                    **moments(self._recorder.optimiser, self._recorder.parameters[at], values.norms[at]),
                )
                for at, part in parameters
            ),
            batch=values.batch(),
            observed_at=observed_at,
        )

    def _jump(self, values: StepValues) -> LearningRateJump | None:
        before, after = self._learning_rate, nan if values.learning_rate is None else values.learning_rate
        self._learning_rate = after
        if not (before > 0 and after > 0 and (after > JUMP * before or before > JUMP * after)):
            return None
        jump = LearningRateJump(step=values.step, before=before, after=after)
        self._jumps.append(jump)
        return jump

    def first_non_finite(self, values: StepValues, recorder: StepRecorder) -> NonFinite:
        """The last parameter of the model, the first of the backward pass, whose gradient is not finite."""
        at = int(np.flatnonzero(~np.isfinite(values.norms))[-1])
        parameter = recorder.parameters[at].detach()
        location = self._locations[at]
        module = location.model_copy(update={"module": (location.module or "").rpartition(".")[0]})
        largest = float(parameter.abs().amax()) if parameter.numel() else 0.0
        return NonFinite("parameter gradient", module, None, largest, torch.finfo(parameter.dtype).max)

    def take_steps(self) -> list[StepValues]:
        steps, self._steps = self._steps, []
        return steps

    def take_spikes(self) -> tuple[Spike, ...]:
        spikes, self.spikes = self.spikes, []
        return tuple(spikes)

    def take_jumps(self) -> tuple[LearningRateJump, ...]:
        jumps, self._jumps = self._jumps, []
        return tuple(jumps)
