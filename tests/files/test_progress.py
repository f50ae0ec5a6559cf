"""The progress bar: one line per stage on a terminal, silence elsewhere."""

from __future__ import annotations

import io
import sys
import time

import pytest

from lamina.files.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_stage_has_a_bar_with_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar() as progress:
        progress("reading", 5, None)
        progress("encoding", 1, 20)
        progress("encoding", 20, 20)
    last = shown.getvalue().rpartition("reading")[2]
    assert "5/?" in last
    assert last.count("encoding") == 1, "a stage has one bar, however often it reports"
    assert "20/20" in last


def test_bars_appear_after_some_seconds_even_if_nothing_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    for options in ({"after": 600.0}, {"quiet": True}):
        with progress_bar(**options) as progress:  # type: ignore[arg-type]
            progress("encoding", 1, 20)
        assert shown.getvalue() == ""
    with progress_bar(after=0.01) as progress:
        progress("encoding", 1, 20)
        deadline = time.monotonic() + 30
        while "encoding" not in shown.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_silent_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as progress:
        progress("encoding", 1, 2)
        progress("encoding", 2, 2)
    assert capfd.readouterr() == ("", "")
