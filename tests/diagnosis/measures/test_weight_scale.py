"""The measure `weight-scale`."""

from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.weight_scale import SCALE, WeightScale
from lamina.studies.faults.models import plain_trial
from support.recorded import fact, line


def test_the_scale_of_every_matrix_by_hand() -> None:
    trial = plain_trial()
    with torch.no_grad():
        trial.layers[1].outer.weight.fill_(0.5)
    found = WeightScale().take(Evidence(model=trial.model))
    assert fact(found, SCALE, module="layers.1.outer") == pytest.approx(0.5 * 256**0.5)
    assert line(found, matrix="outer")[1] == pytest.approx(8.0)
    assert line(found, matrix="query")[0] == pytest.approx(1.0, abs=0.05)
    assert not [each for each in found.facts if each.location.module in ("head", "embedding")]
