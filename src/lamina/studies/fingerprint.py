"""What the result of a run depends on: its config, its data, and the code that was at work.

A finished run is used again as long as these are the same.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import torch

import lamina
from lamina import residual
from lamina.data.manifest import FILE as MANIFEST
from lamina.data.manifest import hash_file
from lamina.data.store import Store
from lamina.residual.base import Residual
from lamina.train.config import RunConfig

ROOMS = ("residual", "model", "data", "generate", "tasks", "train")
# Of [train]; they change no result, nor does anything in [diagnose].
NO_MATTER = {"log_every", "threads", "keep", "samples", "track"}


def fingerprint(config: RunConfig, store: Store) -> dict[str, str]:
    """One hash each, so that a difference can be named."""
    settings = config.model_dump(mode="json", exclude={"train": NO_MATTER, "diagnose": True})
    settings["data"].pop("store")  # where the data is does not matter, what it is does
    return {
        "config": _hash(json.dumps(settings, sort_keys=True)),
        "data": hash_file(store.folder / MANIFEST),
        "code": _hash(*(f"{path.name} {hash_file(path)}" for path in code_files(config)), torch.__version__),
    }


def code_files(config: RunConfig) -> list[Path]:
    """The source of every room that training goes through, without the schemes that this run does not use."""
    root = Path(lamina.__file__).parent
    rooms = {path for room in ROOMS for path in (root / room).rglob("*.py")}
    used = {Path(inspect.getfile(scheme)) for scheme in _used_schemes(config)}
    return sorted(rooms - {Path(inspect.getfile(scheme)) for scheme in residual.schemes()} | used)


def _used_schemes(config: RunConfig) -> Iterator[type]:
    """The schemes of the config, and those they are built on."""
    given = config.chosen_model().get("residual", residual.DEFAULT)
    for name in [given] if isinstance(given, str) else given:
        yield from (base for base in residual.find(name).__mro__ if issubclass(base, Residual))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
