"""Extending Lamina as a user does: by one file in a copy of the package, or by an installed package's entry point."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_package(folder: Path) -> Path:
    """A copy of the package in `folder`, to which a test adds a file."""
    package = folder / "lamina"
    shutil.copytree(ROOT / "src" / "lamina", package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def install(folder: Path, group: str, **entries: str) -> None:
    """Make `folder` look like an installed package `someones` with entry points, `halved="someones_halved:Halved"`."""
    metadata = folder / "someones-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someones\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def run(*command: str, path: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with `path` first, so that a copy of the package in it is imported rather than the tree's own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(path), str(ROOT / "src"), str(ROOT / "tests")]),
        "COLUMNS": "120",
    }
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=folder)
