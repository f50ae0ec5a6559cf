"""Verified files are hashed once, and again after every change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lamina.files import verification
from lamina.files.hashes import FileRecord
from lamina.files.verification import cache_folder, changed_files


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were hashed; files are cached at once, and the cache is empty."""
    names: list[str] = []
    real = verification.hash_file

    def hash_file(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(verification, "hash_file", hash_file)
    monkeypatch.setattr(verification, "_SETTLED", 0)
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return names


def make(folder: Path) -> dict[str, FileRecord]:
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_text(f"content of {name}")
    return {name: FileRecord.of(folder / name) for name in ("one", "two")}


def test_an_unchanged_file_is_hashed_once(tmp_path: Path, hashed: list[str]) -> None:
    folder = tmp_path / "store"
    records = make(folder)
    assert changed_files(folder, records) == {}
    assert changed_files(folder, records) == {}
    assert hashed == ["one", "two"]
    assert sorted(path.name for path in folder.iterdir()) == ["one", "two"], "the cache is outside the folder"


def test_a_change_is_noticed_even_with_the_old_time(tmp_path: Path, hashed: list[str]) -> None:
    folder = tmp_path / "store"
    records = make(folder)
    changed_files(folder, records)
    times = (folder / "one").stat()
    (folder / "one").write_text("c0ntent of one")
    os.utime(folder / "one", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed_files(folder, records) == {"one": "its content has changed"}
    (folder / "one").unlink()
    (folder / "two").write_text("longer than it was before")
    assert changed_files(folder, records) == {"one": "missing", "two": "25 bytes long instead of 14"}


def test_a_new_file_is_not_cached_yet(tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second change within the resolution of the clock would not change its times."""
    monkeypatch.setattr(verification, "_SETTLED", 60 * 10**9)
    records = make(tmp_path / "store")
    for _ in range(2):
        assert changed_files(tmp_path / "store", records) == {}
    assert hashed == ["one", "two"] * 2


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"one": 5, "two": null}', b"\xff" * 9])
def test_with_a_damaged_cache_files_are_hashed_again(content: bytes, tmp_path: Path, hashed: list[str]) -> None:
    folder = tmp_path / "store"
    records = make(folder)
    changed_files(folder, records)
    [memory] = (tmp_path / "cache").rglob("*.json")
    memory.write_bytes(content)
    (folder / "one").write_text("c0ntent of one")
    assert changed_files(folder, records) == {"one": "its content has changed"}


def test_without_a_cache_folder_everything_is_hashed(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make(tmp_path / "store")
    (tmp_path / "cache").write_text("a file where the folder would be")
    for _ in range(2):
        assert changed_files(tmp_path / "store", records) == {}
    assert len(hashed) == 4
    monkeypatch.delenv("LAMINA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_folder() == Path("/shared/lamina")
