"""Averages of checkpoints: exact for floating-point values, those of the last checkpoint for others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from lamina.errors import UserError
from lamina.training.checkpoint.average import average
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.checkpoint.storage import load_model, save


def weights(**model: Tensor) -> Snapshot:
    return Snapshot(model, {}, {}, {}, {"step": 1})


def test_the_average_of_checkpoints(tmp_path: Path) -> None:
    values = [1.0, 1e8, -1e8]  # in float32 the small one would be lost
    paths = [
        save(
            tmp_path / str(number),
            weights(
                w=torch.full((2,), value),
                half=torch.tensor([float(number)], dtype=torch.bfloat16),
                count=torch.tensor([number]),
                flag=torch.tensor([number == 2]),
            ),
        )
        for number, value in enumerate(values)
    ]
    mean = average(paths)
    assert torch.equal(mean["w"], torch.full((2,), 1 / 3))
    assert mean["half"].dtype == torch.bfloat16
    assert mean["half"].item() == 1.0
    assert mean["count"].item() == 2
    assert mean["flag"].item() is True
    same = average([paths[1]] * 3)
    assert torch.equal(same["w"], load_model(paths[1])["w"])


def test_averaging_needs_checkpoints_of_one_model(tmp_path: Path) -> None:
    one = save(tmp_path / "a", weights(w=torch.ones(2)))
    other = save(tmp_path / "b", weights(w=torch.ones(3)))
    with pytest.raises(UserError, match="which is of another model"):
        average([one, other])
    with pytest.raises(UserError, match="no checkpoints"):
        average([])
