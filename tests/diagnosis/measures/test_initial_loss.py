"""The measure `initial-loss`."""

from __future__ import annotations

from math import log

import pytest
import torch

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.initial_loss import GUESS, INITIALISED, LOSS, TARGETS, InitialLoss
from lamina.studies.faults.models import WORDS, plain_trial
from support.recorded import fact, recorded, take


@pytest.mark.parametrize("trained", [False, True])
def test_the_loss_beside_that_of_a_guess(trained: bool) -> None:
    trial = plain_trial()
    if trained:
        with torch.no_grad():
            trial.layers[0].norm1.weight[0] = 1.5
    batch = trial.batch(0)
    record = recorded(trial.model, lambda model: trial.loss(model(*batch), batch))
    found = take(InitialLoss, record)
    assert fact(found, LOSS) == pytest.approx(record.loss, abs=0.05), "of 256 of the 496 targets"
    assert fact(found, GUESS) == pytest.approx(log(WORDS))
    assert fact(found, TARGETS) == 16 * 31
    assert fact(found, INITIALISED) == float(not trained)


def test_another_loss() -> None:
    trial = plain_trial()
    record = recorded(trial.model, lambda model: model(*trial.batch(0)).square().mean())
    with pytest.raises(NotMeasurable, match="no cross-entropy"):
        take(InitialLoss, record)
