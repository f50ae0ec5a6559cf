"""The readers of all formats: their examples, dropped and repaired lines, and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.readers import READERS, make_reader
from lamina.data.store import Store
from lamina.errors import UserError
from support.extensions import copy_package, install, run
from support.reading import write


@pytest.mark.parametrize("format", ["parallel", "tsv", "jsonl", "plain", "glue", "wikitext"])
def test_every_format_refuses_missing_and_empty_files_before_any_work(tmp_path: Path, format: str) -> None:
    empty = write(tmp_path, "empty", "")
    for path, complaint in ((empty, "empty: the file is empty"), (str(tmp_path / "none"), "none: no such file")):
        reader = make_reader(format, (path, path), "train", {"text": "text"} if format == "jsonl" else {})
        with pytest.raises(UserError, match=complaint):
            reader.check()


NEW_READER = """
from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class ShoutedFiles(Reader):
    format = "shouted"
    files: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> "ShoutedFiles":
        return cls(request.sources)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            for number, line in enumerate(read_lines(file, notes.repaired), start=1):
                yield Example({"text": line.upper()}, file, number)
"""


def prepare_shouted(path: Path) -> None:
    write(path, "quiet.txt", "a quiet line\nanother\n")
    keys = ["format=shouted", "train=['quiet.txt']", "output=store", "tokenizer.size=300"]
    write(path, "shouted.toml", "")
    prepared = run("-m", "lamina", "prepare", "shouted.toml", *keys, path=path, folder=path)
    assert prepared.returncode == 0, prepared.stderr
    store = Store.open(path / "store")
    assert store.tokenizer().decode(store["train"].tokens("text", 0)) == "A QUIET LINE"


def test_one_new_file_is_a_new_reader(tmp_path: Path) -> None:
    write(copy_package(tmp_path), "data/readers/shouted.py", NEW_READER)
    prepare_shouted(tmp_path)


def test_an_installed_package_adds_readers_by_entry_point(tmp_path: Path) -> None:
    write(tmp_path, "someones_reader.py", NEW_READER)
    install(tmp_path, "lamina.readers", shouted="someones_reader:ShoutedFiles")
    prepare_shouted(tmp_path)


def test_every_format_has_a_reader() -> None:
    text = {"parallel", "tsv", "jsonl", "plain", "glue", "wikitext", "hub", "embedded"}
    assert set(READERS) == text | {"librispeech", "speech-archive"}
    with pytest.raises(UserError, match="unknown format 'jsnl'; did you mean 'jsonl'"):
        make_reader("jsnl", (), "train", {})
