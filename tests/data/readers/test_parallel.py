"""Line-aligned files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.readers import Notes, make_reader
from lamina.errors import UserError
from support.reading import fields, read, write


def test_parallel_pairs_line_by_line_and_drops_in_pairs(tmp_path: Path) -> None:
    source = write(tmp_path, "s.de", "eins\n\ndrei\nvier\u2028immer noch vier\n  \nsechs")
    target = write(tmp_path, "s.en.gz", "one\ntwo\n\nfour\nfive\nsix\n")
    notes = Notes()
    examples = read("parallel", source, target, notes=notes)
    assert fields(examples) == [("eins", "one"), ("vier\u2028immer noch vier", "four"), ("sechs", "six")]
    assert [example.line for example in examples] == [1, 4, 6]
    assert list(examples[0].fields) == ["source", "target"]
    assert notes.dropped() == {"empty": 3}
    assert notes.dropped_lines() == {"empty": {source: [2, 3, 5]}}


def test_parallel_counts_must_agree_and_are_both_shown(tmp_path: Path) -> None:
    source, target = write(tmp_path, "a", "1\n2\n3\n"), write(tmp_path, "b", "1\n2\n")
    reader = make_reader("parallel", (source, target), "train", {})
    with pytest.raises(UserError, match=r"a has 3 lines but .*b has 2"):
        reader.check()
    with pytest.raises(UserError, match=r"a has 3 lines but .*b has 2"):  # also when nobody checked first
        list(reader.read(Notes()))
    with pytest.raises(UserError, match="couples, source then target; 3 given"):
        make_reader("parallel", (source, target, source), "train", {})


def test_parallel_reads_several_couples(tmp_path: Path) -> None:
    files = [write(tmp_path, name, f"{name}1\n{name}2\n") for name in "abcd"]
    assert fields(read("parallel", *files)) == [("a1", "b1"), ("a2", "b2"), ("c1", "d1"), ("c2", "d2")]
