"""The alarms of a watch around a training loop: early, once, and never for a schedule."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.results import Diagnosis, Finding
from lamina.diagnosis.watching.alarms import BandOptions, UpdateAlarm, VanishedGradientAlarm
from lamina.diagnosis.watching.observation import (
    Observation,
    read_observations,
    write_observations,
)
from lamina.diagnosis.watching.watch import Watch
from lamina.model.models import EncoderDecoder
from lamina.run_folder.records import ObservationsFile
from support.measurements import advice
from support.small_models import small_model
from support.training_loops import adam, loop, take


def judged(diagnosis: Diagnosis) -> dict[str, Finding]:
    """The findings by check, without those that were not measured."""
    return {each.check: each for each in diagnosis.findings if each.severity != "not measured"}


def test_updates_that_leave_their_band_are_reported_once_and_then_checked() -> None:
    """The gradients of the encoder grow tenfold, as before a divergence, at the same learning rate."""
    model = small_model("post-ln")
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    told: list[Any] = []
    with Watch(model, optimiser, every=2, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 40)
        assert told == [], "forty quiet steps"
        for _ in range(4):
            for parameter in model.encoder.parameters():
                assert parameter.grad is not None
                parameter.grad *= 10
            next(steps)
    (alarm,) = told
    assert isinstance(alarm, UpdateAlarm)
    assert alarm.step == 42
    assert alarm.location.stack == "encoder"
    assert alarm.times_usual > 5
    assert str(alarm.location) in str(alarm)
    assert 0.2 <= alarm.outside / alarm.total < 1
    finding = judged(watch.diagnosis())["unstable"]
    assert finding.severity == "warning"
    assert "first at step 42" in finding.sentence
    assert advice(finding)


@pytest.mark.parametrize(("share", "alarms"), [(0.2, 0), (0.01, 1)])
def test_a_single_matrix_that_leaves_its_band_is_no_alarm(share: float, alarms: int) -> None:
    model = small_model("post-ln")
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    told: list[Any] = []
    options = DiagnoseOptions(band=BandOptions(alarm_share=share))
    with Watch(model, optimiser, every=2, options=options, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 40)
        for _ in range(4):
            model.encoder.layers[1].sublayers[1].outer.weight.grad *= 10
            next(steps)
    assert len(told) == alarms
    assert any(each.outside for each in watch.history), "it is observed nevertheless"
    finding = judged(watch.diagnosis())["unstable"]
    assert finding.severity == ("warning" if alarms else "fine")
    assert alarms or "except for single matrices at" in finding.sentence


def test_a_gradient_that_vanishes_is_reported_once_and_then_checked() -> None:
    model = small_model("pre-ln")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    told: list[Any] = []
    lowest = list(model.decoder.layers[0].parameters())
    with Watch(model, optimiser, every=1, on_warning=told.append) as watch:
        for step, _ in zip(range(1, 10), loop(model, optimiser), strict=False):
            if step > 1 and watch.step < 6:  # of steps 1 to 5; the gradient of the step to come is there
                assert bool(told) == (watch.step >= 3)
            if 3 <= step <= 5:
                for parameter in lowest:
                    assert parameter.grad is not None
                    parameter.grad *= 1e-4
    (alarm,) = told
    assert isinstance(alarm, VanishedGradientAlarm)
    assert (alarm.step, alarm.last_layer) == (3, len(model.decoder.layers))
    assert alarm.location == Location(stack="decoder", layer=1)
    diagnosis = watch.diagnosis()
    weakest = diagnosis["watched-weakest-layer"]
    assert {each.location.stack for each in weakest.measured} == {"encoder", "decoder"}
    finding = judged(diagnosis)["vanished"]
    assert finding.severity == "warning"
    (shares,) = (each.y for each in weakest.select(stack="decoder"))
    assert finding.value == min(shares)
    assert alarm.share == shares[2]
    end = "in 8 watched steps, below the threshold of 0.01 in 3 of them, first at step 3; it has recovered since"
    assert end in finding.sentence


def test_a_resumed_watch_does_not_repeat_warnings() -> None:
    def trained(history: list[Observation], step: int, told: list[Any]) -> list[Observation]:
        model = small_model("pre-ln")
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
        with Watch(model, optimiser, every=1, step=step, history=history, on_warning=told.append) as watch:
            for _, _ in zip(range(3), loop(model, optimiser), strict=False):
                for parameter in model.decoder.layers[0].parameters():
                    assert parameter.grad is not None
                    parameter.grad *= 1e-4
        return watch.history

    first, second = list[Any](), list[Any]()
    history = trained([], 0, first)
    longer = trained(history, len(history), second)
    assert (len(first), len(second)) == (1, 0)
    assert len(longer) == 2 * len(history)


def test_a_schedule_causes_no_alarm() -> None:
    model = small_model("pre-ln")
    optimiser = adam(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Watch(model, optimiser, every=2):
            steps = loop(model, optimiser)
            for step in range(1, 60):
                optimiser.param_groups[0]["lr"] = 1e-4 * min(step / 20, (20 / step) ** 0.5)
                next(steps)


def test_warnings_are_the_default() -> None:
    model = small_model("pre-ln")
    watch = Watch(model, adam(model))
    query = Location(stack="decoder", layer=1, matrix="query")
    with pytest.warns(UserWarning, match="step 3: the update of decoder layer 1 query is 7 times its usual size"):
        watch.on_warning(UpdateAlarm(3, query, 7.0, 1, 10))


def test_a_step_that_moves_nothing_and_a_gradient_that_is_not_a_number() -> None:
    model = small_model("pre-ln")
    optimiser = adam(model)
    told: list[Any] = []
    with Watch(model, optimiser, every=1, on_warning=told.append) as watch:
        steps = loop(model, optimiser)
        take(steps, 3)
        optimiser.param_groups[0]["lr"] = 0.0
        next(steps)
        assert watch.values()["update/encoder.1.query"] == 0
        optimiser.param_groups[0]["lr"] = 1e-3
        model.encoder.layers[0].sublayers[1].inner.weight.grad[0, 0] = math.nan
        next(steps)
    assert [each.location for each in told] == [Location(stack="encoder", layer=1, matrix="inner")]
    assert judged(watch.diagnosis())["unstable"].severity == "failure"


def test_a_resumed_watch_continues_from_its_observations(tmp_path: Path) -> None:
    """Two watches, the second with the first one's file, give the observations and warnings of a single one."""

    def go_on(watch: Watch, steps: range) -> None:
        """From the thirtieth step on the encoder gets ten times its gradient."""
        assert isinstance(watch.model, EncoderDecoder)
        watch.optimiser.zero_grad()
        training = loop(watch.model, watch.optimiser)
        next(training)
        with watch:
            for step in steps:
                if step >= 30:
                    for parameter in watch.model.encoder.parameters():
                        assert parameter.grad is not None
                        parameter.grad *= 10
                next(training)

    def begin(told: list[Any]) -> Watch:
        torch.manual_seed(0)
        model = small_model("post-ln")
        return Watch(model, torch.optim.SGD(model.parameters(), lr=1e-3), every=2, on_warning=told.append)

    told: list[Any] = []
    alone = begin(told)
    go_on(alone, range(1, 37))
    assert [each.step for each in told] == [30]

    told_in_parts: list[Any] = []
    first = begin(told_in_parts)
    go_on(first, range(1, 29))
    file = ObservationsFile(tmp_path / "observations.json")
    write_observations(file, first.history)
    history = read_observations(file, until=28)
    again = Watch(first.model, first.optimiser, every=2, step=28, history=history, on_warning=told_in_parts.append)
    go_on(again, range(29, 37))
    assert again.history == alone.history
    assert told_in_parts == told
    assert again.diagnosis() == alone.diagnosis()
    assert [each.step for each in read_observations(file, until=11)] == [2, 4, 6, 8, 10]
