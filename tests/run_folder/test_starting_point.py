"""The record of the weights that a run was started from."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import UserError
from lamina.run_folder.starting_point import StartingPoint


def test_it_is_read_as_it_was_written_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "started_from.json"
    assert StartingPoint.load(file) is None
    record = StartingPoint(path="runs/bert", checkpoint="step-00000004", sha256="a1", loaded=3, initialised=("head.b",))
    record.save(file)
    assert StartingPoint.load(file) == record
    assert record.describe() == "started from runs/bert (step-00000004): 3 weights loaded, 1 initialised"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UserError, match="cannot be understood"):
        StartingPoint.load(file)
