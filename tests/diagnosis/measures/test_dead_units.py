"""The measure `dead-units`."""

from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measures.dead_units import DEAD, DeadUnits
from lamina.studies.faults.models import plain_trial
from support.recorded import fact, line, recorded, take


def test_the_units_that_are_never_active_by_a_plain_loop() -> None:
    trial = plain_trial()
    inner = trial.layers[1].inner
    with torch.no_grad():
        inner.bias[:100] = -30.0
    outputs: list[torch.Tensor] = []
    inner.register_forward_hook(lambda module, arguments, output: outputs.append(output.detach()))
    batch = trial.batch(0)
    found = take(DeadUnits, recorded(trial.model, lambda model: trial.loss(model(*batch), batch)))
    rows = outputs[0].flatten(0, 1).tolist()
    dead = sum(all(max(row[unit], 0.0) == 0 for row in rows) for unit in range(len(rows[0])))
    assert dead >= 100
    assert line(found, stack="stack") == pytest.approx((0.0, dead / 256, 0.0, 0.0, 0.0, 0.0))
    assert fact(found, DEAD, module="layers.1.inner") == pytest.approx(dead / 256)
