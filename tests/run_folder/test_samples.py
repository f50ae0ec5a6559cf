"""Samples are written and read as typed values, whatever the texts hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.run_folder.samples import SamplesFile
from lamina.tasks.base import SampleOutput

ODD = SampleOutput("two\nlines\tand ü", "", '{"step": 9}')


def test_samples_read_back_in_order(tmp_path: Path) -> None:
    samples, plain = SamplesFile(tmp_path / "samples.jsonl"), SampleOutput("a", "b", "c")
    assert samples.last() == list(samples.read()) == []
    samples.append(1, [plain])
    samples.append(2, [ODD, plain])
    samples.append(3, [])
    assert list(SamplesFile(samples.path).read()) == [(1, plain), (2, ODD), (2, plain)]
    assert samples.last() == [ODD, plain]


def test_rewinding_removes_later_steps(tmp_path: Path) -> None:
    samples = SamplesFile(tmp_path / "samples.jsonl")
    samples.rewind(3)
    assert not samples.path.exists()
    for step in (5, 10, 15):
        samples.append(step, [ODD])
    with samples.path.open("ab") as handle:
        handle.write(b'{"step": 10, "sou')  # a kill left half a line
    samples.rewind(10)
    assert [step for step, _ in samples.read()] == [5, 10]
    samples.rewind(0)
    assert samples.path.read_bytes() == b""


def test_a_line_that_is_no_sample_is_named_and_left_out(tmp_path: Path) -> None:
    samples = SamplesFile(tmp_path / "samples.jsonl")
    samples.append(1, [ODD])
    with samples.path.open("a") as handle:
        handle.write('{"step": 2, "source": "a", "reference": "b"}\n')
    with pytest.warns(UserWarning, match=r"samples\.jsonl: a line of step 2 has no 'output'; left out"):
        assert list(samples.read()) == [(1, ODD)]
