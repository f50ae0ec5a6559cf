"""The measure `dropout-rates`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.dropout_rates import PROBABILITY, DropoutRates
from lamina.studies.faults.models import plain_trial
from support.recorded import fact, line, recorded, take


def test_the_largest_probability_of_every_layer() -> None:
    trial = plain_trial()
    for number, layer in enumerate(trial.layers):
        layer.dropout.p = 0.1 * number
    batch = trial.batch(0)
    found = take(DropoutRates, recorded(trial.model, lambda model: trial.loss(model(*batch), batch)))
    assert line(found, stack="stack") == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.5))
    assert fact(found, PROBABILITY, module="layers.3.dropout") == pytest.approx(0.3)
    with pytest.raises(NotMeasurable, match="evaluation mode"):
        take(DropoutRates, recorded(trial.model.eval(), lambda model: trial.loss(model(*batch), batch)))
