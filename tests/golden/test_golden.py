"""Results stay as they are: golden values in float64 on one thread, compared to nine digits, and their versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from golden import produce, table

ROWS = produce.rows()
DROPOUT = ("scheme/", "task/", "optimiser/", "diagnosis/")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return table.read_values()


@pytest.mark.parametrize("row", ROWS)
def test_values_are_the_stored_ones(row: str, folder: Path, stored: dict[str, Any]) -> None:
    if row.startswith(DROPOUT) and not torch.backends.mkl.is_available():
        pytest.skip("without MKL torch draws other dropout masks")
    with produce.double_precision():
        found = ROWS[row].compute(folder)
    wrong = list(table.differences(found, stored[row]))
    assert not wrong, "\n".join([f"{len(wrong)} values differ; see CONTRIBUTING, change results", *wrong[:10]])


def test_values_and_versions_go_together() -> None:
    assert list(table.faults(table.read_table(), table.read_values(), produce.versions())) == []


def test_nothing_is_stored_that_is_not_computed(stored: dict[str, Any]) -> None:
    assert stored.keys() == ROWS.keys()
