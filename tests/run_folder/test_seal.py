"""A sealed folder: a file that was changed, cut, removed or added is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.run_folder.checkpoints import COUNTERS, MANIFEST, MODEL
from lamina.run_folder.seal import DamagedCheckpoint, check, seal


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    (tmp_path / COUNTERS).write_bytes(b"counters")
    (tmp_path / "model").mkdir()
    for number in (1, 2):
        (tmp_path / "model" / f"shard-{number}").write_bytes(b"weights")
    seal(tmp_path)
    return tmp_path


def test_what_was_sealed_is_good(sealed: Path) -> None:
    check(sealed, (COUNTERS, MODEL))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / COUNTERS).write_bytes(b"Counters"),
            "counters.json: damaged, its content has changed",
        ),
        (lambda folder: (folder / COUNTERS).write_bytes(b"count"), "damaged, 5 bytes long instead of 8"),
        (lambda folder: (folder / COUNTERS).unlink(), "counters.json: cannot be read"),
        (lambda folder: (folder / "model" / "shard-2").unlink(), "shard-2: cannot be read"),
        (lambda folder: (folder / "model" / "shard-3").touch(), "shard-3: not in the manifest"),
        (lambda folder: (folder / MANIFEST).unlink(), "manifest.json: cannot be read"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"{}"), "manifest.json: damaged, its content has changed"),
    ],
)
def test_damage_is_named(sealed: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(sealed)
    with pytest.raises(DamagedCheckpoint, match=message):
        check(sealed, (COUNTERS, MODEL))


def test_only_the_files_asked_for_are_read(sealed: Path) -> None:
    (sealed / COUNTERS).write_bytes(b"changed")
    check(sealed, (MODEL,))
