"""Callbacks of the training loop: the display of progress, trackers, samples, the watch, and a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lamina.training.callbacks.base import Callback
from lamina.training.callbacks.samples import WriteSamples
from lamina.training.callbacks.trackers import TRACKERS
from lamina.training.callbacks.watch import WatchModel

if TYPE_CHECKING:
    from lamina.training.config import RunConfig


def built_in_callbacks(config: RunConfig) -> list[Callback]:
    """The callbacks that a config asks for."""
    callbacks: list[Callback] = [TRACKERS[name]() for name in config.train.track]
    if config.train.samples:
        callbacks.append(WriteSamples(config.train.samples))
    if config.diagnose.every:
        callbacks.append(WatchModel(config.diagnose))
    return callbacks
