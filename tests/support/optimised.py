"""A small language model with an optimiser, for the tests of measures of its next update."""

from __future__ import annotations

from torch.optim import SGD, AdamW, Optimizer

from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.recording.passes import backward
from lamina.studies.faults.models import plain_trial


def evidence(kind: str, steps: int = 0) -> Evidence:
    trial = plain_trial()
    batch = trial.batch(0)
    inner = trial.layers[3].inner.weight
    others = [each for each in trial.model.parameters() if each is not inner]
    groups = [{"params": others}, {"params": [inner], "lr": 0.0}]
    optimiser: Optimizer = SGD(groups, lr=0.1) if kind == "sgd" else AdamW(groups, lr=0.01, eps=1e-3, weight_decay=0.0)
    run = lambda model: trial.loss(model(*batch), batch)  # noqa: E731
    for _ in range(steps):
        backward(trial.model, run)
        optimiser.step()
        trial.model.zero_grad()
    return Evidence(model=trial.model, passes=[run], optimiser=optimiser)
