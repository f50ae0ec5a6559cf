"""Values that are not finite, found while a model is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.diagnosis.results import Finding
from lamina.diagnosis.watching.alarms import Alarm, NonFiniteAlarm
from lamina.diagnosis.watching.non_finite import PASSES_WITHOUT_STEP
from support.faulty_models import IDS, WordModel, word_loss


def train(
    model: nn.Module,
    steps: int,
    *,
    scaler: Any = None,
    before: Callable[[int], None] = lambda step: None,
    passes: int = 1,
) -> tuple[list[Alarm], dict[str, Finding]]:
    """Train under a watch; under autocast in half precision if there is a scaler."""
    optimiser, alarms = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    with lamina.watch(model, optimiser, every=1000, on_warning=alarms.append) as watch:
        for step in range(steps):
            before(step)
            for _ in range(passes):
                with torch.autocast("cpu", dtype=torch.float16, enabled=scaler is not None):
                    loss = word_loss(model(IDS), IDS)
                (loss if scaler is None else scaler.scale(loss)).backward()
            if scaler is None:
                optimiser.step()
            else:
                scaler.step(optimiser)
                scaler.update()
            optimiser.zero_grad()
    return alarms, {each.check: each for each in watch.report().findings}


def test_the_module_is_named_at_the_step_in_which_it_happens() -> None:
    """Between two watched steps, before the weights are spoiled, and only once."""
    model = WordModel()

    def break_it(step: int) -> None:
        if step == 2:
            model.layers[1].linear2.register_forward_hook(lambda module, arguments, output: output * math.inf)

    alarms, found = train(model, 5, before=break_it)
    assert [(each.step, each.location.module) for each in alarms] == [(3, "layers.1.linear2")]
    assert "layers.1.linear2 is the first that is NaN or infinite" in str(alarms[0])
    assert found["non-finite"].severity == "failure"
    assert found["non-finite"].location.module == "layers.1.linear2"


def test_steps_that_a_gradient_scaler_skips() -> None:
    """The optimiser's hooks are never called."""
    model = WordModel()
    model.part("layers.1.linear1.weight").mul_(1e6)
    alarms, found = train(model, PASSES_WITHOUT_STEP + 2, scaler=torch.amp.GradScaler("cpu"))
    assert [(type(each), each.location.module) for each in alarms] == [(NonFiniteAlarm, "layers.1.linear1")]
    assert "steps are being skipped" in str(alarms[0])
    assert found["non-finite"].location.layer == 2


@pytest.mark.parametrize("passes", [1, 2 * PASSES_WITHOUT_STEP])
def test_healthy_training_and_accumulated_gradients_give_no_alarm(passes: int) -> None:
    alarms, found = train(WordModel(), 3, passes=passes)
    assert alarms == []
    assert found["non-finite"].severity == "not measured"


def test_a_watch_leaves_training_as_it_is() -> None:
    """Also the replay of a pass: random numbers, gradients and buffers are the same afterwards."""
    ends = []
    for watched in (True, False):
        model = WordModel()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        model.layers[3].linear1.weight.register_hook(lambda gradient: gradient * math.nan)
        watch = lamina.watch(model, optimiser, every=1 if watched else 0, on_warning=lambda alarm: None)
        torch.manual_seed(3)
        with watch:
            for _ in range(2):
                word_loss(model(IDS), IDS).backward()
                optimiser.step()
                optimiser.zero_grad()
        ends.append([torch.rand(1), *(each.detach() for each in model.parameters())])
    assert all(torch.equal(one.nan_to_num(7.0), two.nan_to_num(7.0)) for one, two in zip(*ends, strict=True))
