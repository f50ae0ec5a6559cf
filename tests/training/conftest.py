from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stores of small runs are prepared, once."""
    return tmp_path_factory.mktemp("stores")
