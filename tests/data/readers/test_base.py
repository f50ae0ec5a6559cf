"""Notes of what readers drop and repair, and blank text."""

from __future__ import annotations

import pytest

from lamina.data.readers.base import Notes, is_blank


def test_notes_count_by_reason_and_keep_the_lines_of_each_file() -> None:
    notes = Notes()
    assert notes.dropped() == {}
    for reason, file, line in (("empty", "a", 3), ("empty", "b", 1), ("empty", "a", 9), ("over-long", "a", 4)):
        notes.drop(reason, file, line)
    assert notes.dropped() == {"empty": 3, "over-long": 1}
    assert notes.dropped_lines() == {"empty": {"a": [3, 9], "b": [1]}, "over-long": {"a": [4]}}


@pytest.mark.parametrize(("text", "blank"), [("", True), (" \t\u3000", True), (" a ", False), ("\u200b", False)])
def test_blank_text_is_white_space_only(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
