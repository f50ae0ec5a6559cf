"""Writing a store: one writer at a time, and a finished store or nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from lamina.data.store import Store
from lamina.data.store_writer import StoreWriter
from lamina.errors import UserError
from support.small_stores import flat, small, write_store


def test_an_existing_store_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    with pytest.raises(UserError, match="a store exists already.*--replace"):
        small(folder)
    assert write_store(folder, {"test": {"text": [[5]]}}, replace=True).splits == ("test",)
    other = tmp_path / "precious"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not a finished store; choose another output"):
        small(other, replace=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "store"]
    (tmp_path / "empty").mkdir()
    assert len(small(tmp_path / "empty")["train"]) == 4


def test_only_one_process_writes(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        with pytest.raises(UserError, match="another lamina prepare is writing"):
            small(tmp_path / "store")
        with pytest.raises(UserError, match="unfinished, because lamina prepare was interrupted or is still running"):
            Store.open(tmp_path / "store")
        assert writer.folder.is_dir()
    shutil.rmtree(writer.folder)  # the writer ended without finishing, and there is no store of that name
    assert not (tmp_path / "store").exists()


def test_a_process_killed_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    os.rename(folder, tmp_path / ".store.lamina-replaced")
    with pytest.raises(UserError, match="a store exists already"):  # the old one is back under its name
        small(folder)
    assert len(Store.open(folder)["train"]) == 4
    shutil.copytree(folder, tmp_path / ".store.lamina-replaced")
    write_store(folder, {"test": {"text": [[5]]}}, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_store_that_appears_while_another_is_written_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "store"

    def write_while_somebody_else_does() -> None:
        with StoreWriter(folder, replace=True) as writer:
            folder.mkdir()
            (folder / "thesis.tex").write_text("years of work")
            writer.finish(settings={}, sources=(), labels=(), tokenizers={}, splits={})

    with pytest.raises(UserError, match="not a finished store"):
        write_while_somebody_else_does()
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_failed_replacement_puts_the_old_store_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "store"
    old = small(folder)
    rename = Path.rename

    def fail_for_the_new_one(self: Path, target: Path) -> Path:
        if self.name.endswith("partial"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(UserError, match="No space left"):
        write_store(folder, {"test": {"text": [[5]]}}, replace=True)
    assert Store.open(folder).manifest == old.manifest
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def write_a_part() -> None:
        with StoreWriter(tmp_path / "store") as writer:
            split = writer.split("train", {"text": np.dtype(np.uint16)})
            split.append({"text": flat([[1, 2]])})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_a_part()
    assert list(tmp_path.iterdir()) == []
