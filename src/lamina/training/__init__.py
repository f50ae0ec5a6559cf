"""Training: the loop, callbacks, optimisers, schedules, precision, checkpoints, and several processes."""

from __future__ import annotations

RESULT_VERSION = 1
"""The result version of what all runs share: data order, model, training loop, optimisers, generation and metrics.

Raise it when a change of these makes a run end with other numbers. Finished runs of other versions are trained again.
"""
