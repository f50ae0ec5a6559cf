"""The measure `target-alignment`."""

from __future__ import annotations

import pytest
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.diagnosis.measures.target_alignment import PADDING, REPEATS, SAME_CLASSES, TargetAlignment
from lamina.studies.faults.models import plain_trial
from support.recorded import fact, line, recorded, take


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_share_of_targets_at_every_offset_by_a_plain_loop(offset: int) -> None:
    trial = plain_trial()
    (tokens,) = trial.batch(0)
    end = tokens.shape[1] - 2

    def run(model: nn.Module) -> Tensor:
        return F.cross_entropy(model(tokens)[:, :end].flatten(0, 1), tokens[:, offset : end + offset].flatten())

    found = take(TargetAlignment, recorded(trial.model, run))
    shares = []
    for k in (-1, 0, 1, 2, 3):
        pairs = [
            (tokens[row, place + offset].item(), tokens[row, place + k].item())
            for row in range(len(tokens))
            for place in range(end)
            if 0 <= place + k < tokens.shape[1]
        ]
        shares.append(sum(one == other for one, other in pairs) / len(pairs))
    assert line(found) == pytest.approx(shares)
    assert shares[offset + 1] == 1.0
    assert fact(found, SAME_CLASSES) == 1.0
    assert fact(found, PADDING) == 0.0
    assert fact(found, REPEATS) in (0.0, 1.0)
