"""What the result of a run depends on: its config, its data, and the code that was at work.

A finished run is used again as long as these are the same. Its diagnoses depend on code of their own: where only that
has changed, they are made again and the run is not.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from lamina import residual
from lamina.data.manifest import FILE as MANIFEST
from lamina.data.store import Store
from lamina.files.hashes import hash_file
from lamina.options import Affects, result_values
from lamina.residual.base import Residual
from lamina.training.config import RunConfig

ROOMS = ("residual", "model", "data", "generate", "tasks", "run_folder", "training", "runs")
TRAINING = ("options.py", "config.py", *(f"{room}/**/*.py" for room in ROOMS))
DIAGNOSING = ("diagnosis/**/*.py", "runs/diagnose.py", "studies/worker.py")


def fingerprint(config: RunConfig, store: Store) -> dict[str, str]:
    """Of the training: one hash each, so that a difference can be named."""
    settings = result_values(config, Affects.RESULTS, Affects.LENGTH, Affects.ROUNDING)
    return {
        "config": _hash(json.dumps(settings, sort_keys=True)),
        "data": hash_file(store.folder / MANIFEST),
        "code": _hash(*_hashes(code_files(config)), torch.__version__),
    }


def diagnosis_fingerprint(config: RunConfig) -> str:
    """Of what its diagnoses depend on besides."""
    return _hash(*_hashes(_sources(DIAGNOSING)), config.diagnose.thresholds.model_dump_json())


def code_files(config: RunConfig) -> set[Path]:
    """The source of every room that training goes through, without the schemes that this run does not use."""
    schemes = {Path(inspect.getfile(scheme)) for scheme in residual.schemes()}
    return _sources(TRAINING) - _sources(DIAGNOSING) - schemes | _used_schemes(config)


def _used_schemes(config: RunConfig) -> set[Path]:
    """The files of the config's schemes, and of those they inherit or import something from."""
    given = config.chosen_model().get("residual", residual.DEFAULT)
    used = [residual.find(name) for name in ([given] if isinstance(given, str) else given)]
    known = {scheme.__module__ for scheme in residual.schemes()}
    new = {base.__module__ for scheme in used for base in scheme.__mro__ if issubclass(base, Residual)}
    found = set[str]()
    while new:
        found |= new
        new = {name for module in new for name in _imports(module)} & known - found
    return {Path(inspect.getfile(sys.modules[module])) for module in found}


def _imports(module: str) -> set[str]:
    """The names of all modules that it may import; `from a import b` is both a and a.b."""
    found = set[str]()
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {each.name for each in node.names}
            origin = getattr(node, "module", None)
            found |= names if origin is None else {origin, *(f"{origin}.{name}" for name in names)}
    return found


def _sources(patterns: Iterable[str]) -> set[Path]:
    root = Path(__file__).parents[1]
    return {path for pattern in patterns for path in root.glob(pattern)}


def _hashes(files: Iterable[Path]) -> list[str]:
    return [f"{path.name} {hash_file(path)}" for path in sorted(files)]


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
