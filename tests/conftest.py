"""Fixtures that all tests share: one thread, seeds, real data if it is available."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.training.machine.bf16 import make_bf16_safe

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the environment
    make_bf16_safe()
    os.environ["LAMINA_CACHE"] = tempfile.mkdtemp(prefix="lamina-cache-")  # not the user's

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs; programs under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import torch

torch.set_num_threads(1)  # small models: one thread is faster, and sums do not depend on the machine


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Build and compute in double precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the stores of small runs are prepared, once."""
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = os.environ.get("LAMINA_REAL_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("LAMINA_REAL_DATA does not name a folder of real data")
    return Path(folder)
