"""Prepared data on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.catalogue import SOURCES, Source
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.report.terminal.stores import show_dropped, show_source, show_sources, show_store, verify_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "[red]a.txt").write_text("one two\n\nthree four\nfive\n")
    (tmp_path / "b.txt").write_text("eins zwei\nleer\ndrei vier\nfünf\n")
    files = [str(tmp_path / "[red]a.txt"), str(tmp_path / "b.txt")]
    options = {"output": str(tmp_path / "store"), "train": files, "valid": files, "tokenizer": {"size": 300}}
    return prepare(PrepareOptions.read(options, where="test"))


def test_every_named_set_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    own = Source.embedded("Brought by a task", {})
    show_sources({"embedded-own": own})
    first_words = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert {*SOURCES, "embedded-own"} <= first_words
    show_source("wikitext-103", dict)
    assert "CC BY-SA" in capsys.readouterr().out


def test_a_store_is_shown_with_its_counts(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    show_store(store)
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("train")).split()
    assert row[1] == "3"
    assert row[-3:] == ["1", "empty", "–"]
    assert "Note: valid: 3 of 3 examples are also in train." in shown
    assert f"Store: {store.folder}" in shown


def test_every_example_that_was_left_out_is_a_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    show_dropped(store)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(split, Path(file).name, line, reason) for split, file, line, reason in lines] == [
        (split, "[red]a.txt", "2", "empty") for split in ("train", "valid")
    ]


def test_a_change_is_reported(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_store(str(store.folder))
    assert "as it was made" in capsys.readouterr().out
    file = next(Path(store.folder).glob("train/*.tokens.npy"))
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    assert not verify_store(str(store.folder))
    assert f"{file.name}: changed" in capsys.readouterr().out
