"""Events of single steps under a watch: spikes with their layer and batch, jumps of the learning rate, late NaNs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch

from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.watching.alarms import LearningRateAlarm, NonFiniteAlarm, SpikeAlarm
from lamina.diagnosis.watching.spikes import SpikeOptions
from lamina.diagnosis.watching.watch import Watch
from support.faulty_models import IDS, WordModel, word_loss

OPTIONS = DiagnoseOptions(spikes=SpikeOptions(min_observed=12))


def train(steps: int, **settings: Any) -> tuple[Watch, list[Any]]:
    """A small model on changing words; `sick` is the step whose third layer gets a hundred times its gradient."""
    sick, jump_at, nan_at = (settings.pop(name, None) for name in ("sick", "jump_at", "nan_at"))
    torch.manual_seed(0)
    model, told = WordModel(), list[Any]()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    factor = [1.0]
    model.layers[2].linear1.weight.register_hook(lambda gradient: gradient * factor[0])
    draw = torch.Generator().manual_seed(1)
    with Watch(model, optimiser, every=100, options=OPTIONS, on_warning=told.append, **settings) as watch:
        for step in range(1, steps + 1):
            ids = torch.randint(int(IDS.max()), IDS.shape, generator=draw)
            factor[0] = math.nan if step == nan_at else 100.0 if step == sick else 1.0
            optimiser.param_groups[0]["lr"] = 1e-3 if jump_at is not None and step >= jump_at else 1e-4
            loss = word_loss(model(ids), ids)
            loss.backward()
            watch.record(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
    return watch, told


def test_a_spike_is_reported_with_layer_matrix_moments_and_batch() -> None:
    watch, told = train(40, sick=33)
    (alarm,) = told
    assert isinstance(alarm, SpikeAlarm)
    spike = alarm.spike
    assert (spike.step, spike.quantity, spike.observed_at) == (33, "gradient norm", 33)
    assert (spike.location.stack, spike.location.layer) == ("stack", 3)
    first = spike.parameters[0]
    assert first.location.module == "layers.2.linear1.weight"
    assert first.share > 0.9
    assert first.gradient_norm > 20 * first.usual_norm
    assert first.surprise is not None
    assert first.surprise > 10, "Adam's v comes from smaller gradients"
    assert None not in (first.first_moment, first.second_moment)
    assert spike.batch is not None
    assert len(spike.batch.sha256) == 64
    assert "layers.2.linear1.weight" in str(alarm)
    observed = {each.step: each for each in watch.history}
    assert observed.keys() == {5, 10, 15, 20, 25, 30, 33, 35, 40}, "the step of a spike is observed as well"
    assert observed[33].spikes == (spike,)
    assert observed[33].matrices
    assert observed[33].conditioning is not None


def test_healthy_steps_have_their_losses_and_no_alarm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch, told = train(58)
    assert told == []
    assert [each.step for each in watch.history] == list(range(5, 51, 5))
    steps = [step for each in watch.history for step in each.trace.steps]
    assert steps == list(range(1, 59)), "those after the last observation too"
    assert all(loss is not None for each in watch.history for loss in each.trace.losses)


def test_a_jump_of_the_learning_rate_is_reported() -> None:
    watch, told = train(30, jump_at=22)
    jumps = [each for each in told if isinstance(each, LearningRateAlarm)]
    assert [(each.step, each.jump.before, each.jump.after) for each in jumps] == [(22, 1e-4, 1e-3)]
    assert "10 times" in str(jumps[0])
    assert [jump.step for each in watch.history for jump in each.learning_rate_jumps] == [22]


@pytest.mark.parametrize(("read_every", "late"), [(1, False), (4, True)])
def test_gradients_that_are_not_finite_are_found_at_once_or_when_they_are_read(read_every: int, late: bool) -> None:
    _, told = train(16, nan_at=12, read_every=read_every)
    (alarm,) = told
    assert isinstance(alarm, NonFiniteAlarm)
    assert (alarm.step, alarm.late, alarm.location.module) == (12, late, "layers.2.linear1")
    assert ("read_every=1" in str(alarm)) == late


def test_a_spike_that_is_read_later_keeps_its_step() -> None:
    _, told = train(40, sick=33, read_every=6)
    spikes = [each.spike for each in told if isinstance(each, SpikeAlarm)]
    assert [(each.step, each.observed_at) for each in spikes] == [(33, 35)]
    assert spikes[0].parameters[0].location.module == "layers.2.linear1.weight"
