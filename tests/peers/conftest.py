"""The other libraries, imported when a test first asks for them; without them its tests skip."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

INSTALL = "pip install --no-deps -r tests/peers/requirements.txt"


def _peer(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name.partition('.')[0]} is not importable; {INSTALL}")


@pytest.fixture(scope="session")
def x_transformers() -> Any:
    return _peer("x_transformers")


@pytest.fixture(scope="session")
def admin_torch() -> Any:
    return _peer("admin_torch")


@pytest.fixture(scope="session")
def transformers() -> Any:
    return _peer("transformers")


@pytest.fixture(scope="session")
def torchscale() -> Any:
    """`torchscale.architecture`, with its encoder, decoder, encoder–decoder and configs.

    At import it asks fairscale and timm for sharding, activation checkpointing and stochastic depth, and timm asks for
    torchvision. None of that is compared, so empty modules replace them during the import.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fairscale.nn", _stand_in("fairscale.nn", "checkpoint_wrapper", "wrap"))
        patch.setitem(sys.modules, "timm.models.layers", _stand_in("timm.models.layers", "drop_path"))
        _peer("torchscale.architecture.config")
        _peer("torchscale.architecture.encoder_decoder")
        return sys.modules["torchscale.architecture"]


def _stand_in(module: str, *names: str) -> ModuleType:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(f"the stand-in for {module} was called")

    stand_in = ModuleType(module)
    for name in names:
        setattr(stand_in, name, refuse)
    return stand_in
