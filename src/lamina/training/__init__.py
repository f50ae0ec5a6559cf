"""Training: the loop, callbacks, optimisers, schedules, precision, checkpoints, and several processes."""

from __future__ import annotations

RESULT_VERSION = 6
"""The result version of what all runs share: data order, model, training loop, optimisers, generation and metrics.

Increase it when a change to any of these changes the results of a run: runs of another version are trained again.
"""
