"""JSON lines: readable at once, cut back to a step, whole after a kill or a full disk."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UserError
from lamina.files.hashes import FileRecord
from lamina.files.json_lines import JsonLines


@pytest.fixture
def lines(tmp_path: Path) -> JsonLines:
    return JsonLines(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("text", ["Grüße", "日本", "\ud800", 'a\n"b"\\', "\x00\u2028"])
def test_any_text_reads_back(lines: JsonLines, text: str) -> None:
    lines.append(1, {"text": text})
    lines.append(2, {})
    assert list(lines.read()) == [{"step": 1, "text": text}, {"step": 2}]
    lines.rewind(1)
    assert list(lines.read()) == [{"step": 1, "text": text}]


def test_text_is_readable_without_a_program(lines: JsonLines) -> None:
    lines.append(1, {"text": "Grüße"})
    assert "Grüße" in lines.path.read_text("utf-8")


def test_metrics_are_json_whatever_happens_to_the_loss(lines: JsonLines) -> None:
    lines.append(3, {"loss": math.nan, "norms": [1.0, math.inf], "by": {"layer": -math.inf}, "rate": 0.1 + 0.2})
    text = lines.path.read_text()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    values = json.loads(text, parse_constant=refuse)
    assert values == {"step": 3, "loss": None, "norms": [1.0, None], "by": {"layer": None}, "rate": 0.1 + 0.2}


def test_lines_are_readable_at_once(lines: JsonLines) -> None:
    reader = JsonLines(lines.path)
    for step in range(1, 4):
        lines.append(step, {"loss": 1 / step})
        assert [line["step"] for line in reader.read()] == list(range(1, step + 1))


@given(st.lists(st.integers(0, 30)), st.integers(0, 31), st.integers(0, 40), st.data())
def test_resuming_leaves_the_lines_up_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], resumed: int, cut: int, data: st.DataObject
) -> None:
    """Cut the file anywhere in its last line, as a kill does: no other line is touched, and the next one follows."""
    path = tmp_path_factory.mktemp("metrics") / "metrics.jsonl"
    lines = JsonLines(path)
    for step in steps:
        lines.append(step, {"loss": step / 7})
    lines.close()
    if steps:
        last = len(path.read_bytes().splitlines()[-1]) + 1
        os.truncate(path, path.stat().st_size - min(cut, last))
    whole = steps[:-1] if cut else steps
    assert [line["step"] for line in lines.read()] == whole
    if data.draw(st.booleans()):
        lines.rewind(resumed)
        whole = [step for step in whole if step <= resumed]
    lines.append(99, {})
    lines.close()
    assert list(lines.read()) == [*({"step": step, "loss": step / 7} for step in whole), {"step": 99}]


def test_rewinding_keeps_the_bytes_of_what_stays(lines: JsonLines) -> None:
    for step in range(1, 5):
        lines.append(step, {"loss": 0.1 * step, "text": "ü"})
    before = lines.path.read_bytes().splitlines(keepends=True)
    lines.rewind(2)
    assert lines.path.read_bytes() == b"".join(before[:2])
    assert stat.S_ISREG(lines.path.stat().st_mode)


def test_a_line_that_is_not_json_is_named_and_left_out(lines: JsonLines) -> None:
    lines.path.write_text('{"step": 1}\nrubbish\n[2]\n{"loss": 1}\n{"step": 2}\n')
    with pytest.warns(UserWarning, match=r"metrics\.jsonl:[234]: not a line of JSON") as warned:
        assert [line["step"] for line in lines.read()] == [1, 2]
    assert len(warned) == 3


@pytest.mark.parametrize("written", [0, 9])
def test_a_full_disk_leaves_no_half_line(lines: JsonLines, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    lines.append(1, {"loss": 1.0})
    write = os.write

    def full(descriptor: int, line: bytes) -> int:
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, line[:written])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="cannot be written .*make room"):
        lines.append(2, {"loss": 1.0})
    monkeypatch.undo()
    lines.append(3, {"loss": 1.0})
    values: list[Any] = [json.loads(line)["step"] for line in lines.path.read_text().splitlines()]
    assert values == [1, 3]


def test_the_record_grows_with_the_file_and_reads_each_byte_once(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "lines.jsonl")
    assert lines.record() is None
    for step in (1, 2):
        lines.append(step, {"loss": 0.5})
        assert lines.record() == FileRecord.of(lines.path)
    whole = lines.record()
    with lines.path.open("ab") as handle:
        handle.write(b'{"step": 3')
    assert lines.record() == whole
    lines.rewind(1)
    assert lines.record() == FileRecord.of(lines.path)
