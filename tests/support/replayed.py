"""A replayed step, made by hand."""

from __future__ import annotations

from pathlib import Path

from lamina.runs.replay import Replay
from lamina.training.update import Update

STEP = Replay(
    run=Path("runs/own"),
    step=1250,
    repeated_from=1000,
    learning_rate=1e-3,
    epoch=2,
    batch=7,
    examples={3: {"source": "one\ttwo\u200b<b>", "reference": "drei"}, 9: {"source": "four", "reference": "vier\n"}},
    update=Update(loss=2.5, nll=2.4, labels=40, gradient_norm=1.5, applied=True),
    divergence="",
    observation=None,
    alarms=(),
    recorded_loss=2.5,
)
