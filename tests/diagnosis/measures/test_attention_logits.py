"""The measure `attention-logits`."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from lamina.diagnosis.measures.attention_logits import LARGEST_LOGIT, AttentionLogits
from lamina.studies.faults.models import PlainAttention, plain_trial
from support.recorded import fact, line, recorded, take


def test_the_largest_logit_of_every_layer_by_a_plain_loop() -> None:
    trial, inputs = plain_trial(), []
    batch = trial.batch(0)
    attention = trial.layers[2].attention
    assert isinstance(attention, PlainAttention)
    attention.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0].detach()))
    record = recorded(trial.model, lambda model: trial.loss(model(*batch), batch))
    found = take(AttentionLogits, record)
    query, key = (attention.split(each(inputs[0])) for each in (attention.query, attention.key))
    largest = 0.0
    for sentence in range(query.shape[0]):
        for head in range(query.shape[1]):
            for place in range(query.shape[2]):
                for seen in range(place + 1):
                    product = torch.dot(query[sentence, head, place], key[sentence, head, seen]).item()
                    largest = max(largest, abs(product) / sqrt(query.shape[-1]))
    assert line(found, stack="stack")[2] == pytest.approx(largest, rel=1e-4)
    assert fact(found, LARGEST_LOGIT, module="layers.2.attention") == pytest.approx(largest, rel=1e-4)
    assert len(found.grids[0].values) == len(trial.layers)
