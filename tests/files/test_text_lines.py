"""The line reader: what ends a line, what is repaired, what is refused, and how much memory it takes."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UserError
from lamina.files import text_lines
from lamina.files.text_lines import BYTE_ORDER_MARK, CARRIAGE_RETURN, check_text, count_lines, read_lines


def write(folder: Path, content: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_only_newline_ends_a_line(tmp_path: Path, name: str) -> None:
    text = ["a\u2028b", "c\x0bd\x0ce", "f\x85g\u2029h", "i\rj", "", " \u00a0", "last"]
    path = write(tmp_path, "\n".join(text).encode(), name)
    assert list(read_lines(path)) == text
    assert count_lines(path) == len(text)


def test_a_final_newline_ends_the_last_line(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path, b"a\nb\n"))) == ["a", "b"]
    assert list(read_lines(write(tmp_path, b"a\nb\n\n"))) == ["a", "b", ""]
    assert list(read_lines(write(tmp_path, b"\n"))) == [""]


def test_one_carriage_return_at_the_end_is_removed_and_counted(tmp_path: Path) -> None:
    repaired: Counter[str] = Counter()
    path = write(tmp_path, b"a\r\nb\nc\rd\r\r\ne\r")
    assert list(read_lines(path, repaired)) == ["a", "b", "c\rd\r", "e"]
    assert repaired == {CARRIAGE_RETURN: 3}


def test_the_byte_order_mark_is_removed_at_the_start_only(tmp_path: Path) -> None:
    repaired: Counter[str] = Counter()
    path = write(tmp_path, "\ufeffa\n\ufeffb\n".encode())
    assert list(read_lines(path, repaired)) == ["a", "\ufeffb"]
    assert repaired == {BYTE_ORDER_MARK: 1}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"good\nbad \xff byte\n", r"line 2: byte 5 \(0xff\) is not valid UTF-8.*iconv"),
        (b"good\nCESU \xed\xa0\x80\n", r"line 2: byte 6"),
        (b"good\noverlong \xc0\xaf\n", r"line 2: byte 10"),
        (b"a\nb\nc\0d\n", r"line 3: holds a NUL.*UTF-16"),
        ("wide\n".encode("utf-16"), r"line 1: starts like UTF-16"),
        (gzip.compress(b"packed\n", mtime=0), r"line 1: starts like a gzip file.*\.gz"),
        (b"", r"the file is empty"),
        (b"\xef\xbb\xbf", r"the file is empty"),
    ],
)
def test_what_would_lose_text_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UserError, match=complaint) as caught:
        list(read_lines(path))
    assert str(path) in str(caught.value)


def test_lines_before_a_fault_are_yielded(tmp_path: Path) -> None:
    reader = read_lines(write(tmp_path, b"one\ntwo\n\xff\n"))
    assert [next(reader), next(reader)] == ["one", "two"]
    with pytest.raises(UserError, match="line 3"):
        next(reader)


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    generator = random.Random(1)
    noise = "\n".join(str(generator.random()) for _ in range(2000)).encode()
    packed = gzip.compress(noise, mtime=0)
    cut, flipped, garbage = tmp_path / "cut.gz", tmp_path / "flipped.gz", tmp_path / "garbage.gz"
    cut.write_bytes(packed[:-20])
    flipped.write_bytes(packed[:300] + bytes([packed[300] ^ 0xFF]) + packed[301:])
    garbage.write_bytes(b"this was never packed\n")
    for path, complaint in ((cut, "cut short"), (flipped, "after line"), (garbage, "not a valid gzip file")):
        with pytest.raises(UserError, match=complaint):
            list(read_lines(path))
        with pytest.raises(UserError, match=complaint):
            count_lines(path)


def test_what_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, complaint in ((tmp_path, "regular"), (tmp_path / "pipe", "regular"), (tmp_path / "none", "no such file")):
        with pytest.raises(UserError, match=complaint):
            list(read_lines(path))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_longest_line_and_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes, end: bytes
) -> None:
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 1000)
    path = write(tmp_path, mark + b"x" * 1000 + end + b"\nnext" * bool(end))
    assert list(read_lines(path))[0] == "x" * 1000
    for more in range(1, 8):
        write(tmp_path, mark + b"x" * (1000 + more) + end + b"\nnext" * bool(end))
        with pytest.raises(UserError, match="line 1: longer than"):
            list(read_lines(path))


def test_a_file_without_line_ends_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as handle:
        for _ in range(64):
            handle.write(b"x" * (1 << 20))
    tracemalloc.start()
    with pytest.raises(UserError, match="longer than 4 MiB"):
        list(read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20


@given(st.binary(max_size=200))
def test_counting_agrees_with_reading(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), content, "any.bin")
    try:
        read = list(read_lines(path))
    except UserError:
        return
    assert count_lines(path) == len(read)
    body = content.removeprefix(b"\xef\xbb\xbf")
    assert len(read) == body.count(b"\n") + (not body.endswith(b"\n"))


CLEAN = st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(CLEAN, min_size=1))
def test_any_clean_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    path = write(tmp_path_factory.getbasetemp(), "".join(line + "\n" for line in text).encode(), "clean.txt")
    assert list(read_lines(path)) == text


def test_text_from_other_sources_follows_the_same_rules() -> None:
    assert check_text("fine \U0001f600", "here") == "fine \U0001f600"
    with pytest.raises(UserError, match=r"here: .*U\+D800"):
        check_text("half \ud800", "here")
    with pytest.raises(UserError, match="here: .*NUL"):
        check_text("a\0b", "here")
