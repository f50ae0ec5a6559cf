"""The result of an update."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from lamina.training.update import Update


def test_an_update_is_a_result_that_nobody_changes() -> None:
    update = Update(loss=2.0, nll=1.9, labels=7, gradient_norm=0.5, applied=True)
    with pytest.raises(FrozenInstanceError):
        update.loss = 1.0  # type: ignore[misc]
