"""A write replaces a file, or leaves it as it was and nothing beside it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.files.atomic import write_file


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for content in (b"one", b"", b"three"):
        write_file(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_former_content(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "file", b"former")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match=r"file: cannot be written \(No space left on device\); nothing was changed"):
        write_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"former"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent/file: cannot be written \(No such file or directory\)"):
        write_file(tmp_path / "absent" / "file", b"")


def test_files_that_killed_processes_left_are_removed_when_they_are_old(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (".a.json.11.partial", ".a.json.12.partial", ".b.json.13.partial"))
    folder = tmp_path / ".a.json.14.partial"
    folder.mkdir()
    for path in (old, young, other, folder / "inside"):
        path.write_text("half")
    for path in (old, other, folder):
        os.utime(path, (0, 0))
    write_file(tmp_path / "a.json", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.json", young.name, other.name])
