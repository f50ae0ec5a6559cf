"""The measure `information-leak`."""

from __future__ import annotations

from types import MethodType

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.base import Evidence, NotMeasurable
from lamina.diagnosis.measures.information_leak import LATER, OTHERS, PADDING, InformationLeak, at_an_end
from lamina.studies.faults.models import PlainLayer, plain_trial
from support.recorded import fact


class MixedUp(PlainLayer):
    """Attends over the batch instead of the positions."""

    def forward(self, x: Tensor) -> Tensor:
        return PlainLayer.forward(self, x.transpose(0, 1)).transpose(0, 1)


def leak(*, causal: bool = True, tokens: Tensor | None = None, mixed: bool = False) -> Measurement:
    trial = plain_trial()
    trial.layers[1].attention.causal = causal
    if mixed:
        trial.layers[1].forward = MethodType(MixedUp.forward, trial.layers[1])
    (given,) = trial.batch(0) if tokens is None else (tokens,)
    return InformationLeak().take(Evidence(model=trial.model, passes=[lambda model: model(given).mean()]))


def test_a_causal_model_sees_no_later_token() -> None:
    found = leak()
    assert fact(found, LATER) == 0.0
    assert fact(found, OTHERS) == 0.0
    assert fact(leak(causal=False), LATER) > 0.01
    assert fact(leak(mixed=True), OTHERS) > 0.01


@pytest.mark.parametrize("left", [False, True])
def test_padding(left: bool) -> None:
    tokens = torch.randint(1, 200, (4, 12))
    tokens[1:3, (slice(0, 4) if left else slice(8, 12))] = 0
    found = fact(leak(tokens=tokens), PADDING)
    assert (found > 0.01) == left, "with a causal mask only padding on the left is seen"


def test_padding_is_at_an_end() -> None:
    rows = torch.tensor([[0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=torch.bool)
    found = at_an_end(rows)
    assert found is not None
    assert found.tolist() == [[False, False, True, True], [False] * 4, [False] * 4, [False] * 4]
    assert at_an_end(torch.zeros(2, 4, dtype=torch.bool)) is None


def test_a_model_that_reads_no_tokens() -> None:
    with pytest.raises(NotMeasurable, match="no tokens"):
        InformationLeak().take(Evidence(model=nn.Linear(2, 2), passes=[lambda model: model(torch.ones(2, 2)).mean()]))
