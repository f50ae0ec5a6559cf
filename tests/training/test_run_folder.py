"""The run folder: one writer, whole files, metrics that resume where the run does."""

from __future__ import annotations

import errno
import json
import math
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UserError
from lamina.files.json_lines import JsonLines
from lamina.run_folder.folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "first").claim()


def test_looking_changes_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "first")
    assert run.status() is None
    assert list(run.metrics.read()) == []
    assert list(tmp_path.iterdir()) == []


def test_claiming_makes_the_folders(run: RunFolder) -> None:
    assert run.checkpoints.is_dir()
    assert run.diagnosis.is_dir()


def test_a_second_claim_is_refused_and_told_by_whom(run: RunFolder) -> None:
    again = RunFolder(run.path)
    with pytest.raises(UserError, match=rf"first: process {os.getpid()} on {socket.gethostname()} is writing"):
        again.claim()
    run.release()
    again.claim()
    with pytest.raises(UserError, match="is writing in this folder"):
        run.claim()


def test_leaving_the_block_releases(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder(tmp_path / "run").claim() as run:
            run.metrics.append(1, {"loss": 2.0})
    assert [line["step"] for line in run.metrics.read()] == [1, 1]


def test_writing_needs_a_claim(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for write in (
        lambda: run.set_status("running", 0),
        lambda: run.store_config("x"),
        lambda: run.add_samples(1, ["x"]),
    ):
        with pytest.raises(AssertionError):
            write()


def test_a_path_that_cannot_be_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file: no run folder can be made there \((Not a directory|File exists)\)"):
        RunFolder(tmp_path / "file").claim()


def test_status_keeps_the_first_start(run: RunFolder) -> None:
    run.set_status("running", 0)
    first = run.status()
    assert first is not None
    early = {**first.model_dump(), "started": "2020-01-01T00:00:00+00:00", "updated": "2020-01-01T00:00:00+00:00"}
    (run.path / "status.json").write_text(json.dumps(early))
    run.set_status("failed", 17, "the loss is not finite at step 18")
    status = RunFolder(run.path).status()
    assert status is not None
    assert (status.state, status.step) == ("failed", 17)
    assert status.reason == "the loss is not finite at step 18"
    assert status.started == "2020-01-01T00:00:00+00:00"
    assert status.updated > "2024"


def test_a_strange_status_is_named(run: RunFolder) -> None:
    (run.path / "status.json").write_text('{"state": "fine"}')
    with pytest.raises(UserError, match=r"status\.json: cannot be understood; damaged"):
        run.status()


def test_config_is_replaced_whole_or_not_at_all(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.store_config("a = 1\n")
    assert run.config.read_text() == "a = 1\n"

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(UserError, match="No space left"):
        run.store_config("a = 2\n")
    assert run.config.read_text() == "a = 1\n"
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "checkpoints", "config.toml", "diagnosis"]


def test_samples_are_appended(run: RunFolder) -> None:
    run.add_samples(1, ["Güten", "Morgen"])
    run.add_samples(2, [])
    assert run.samples.read_text(encoding="utf-8") == "step 1\n  Güten\n  Morgen\nstep 2\n"


def test_rewinding_drops_the_samples_of_later_steps_and_half_of_one(run: RunFolder) -> None:
    run.rewind(3)
    assert not run.samples.exists()
    for step in (5, 10, 15):
        run.add_samples(step, ["source: ü", "step 99"])
    os.truncate(run.samples, run.samples.stat().st_size - len("step 99\n") - 2)
    with run.samples.open("ab") as handle:
        handle.write("ü".encode()[:1])
    run.rewind(10)
    assert run.samples.read_text("utf-8") == "".join(f"step {step}\n  source: ü\n  step 99\n" for step in (5, 10))
    run.rewind(0)
    assert run.samples.read_text() == ""


def test_metrics_are_json_whatever_happens_to_the_loss(run: RunFolder) -> None:
    run.metrics.append(3, {"loss": math.nan, "norms": [1.0, math.inf], "by": {"layer": -math.inf}, "rate": 0.1 + 0.2})
    text = (run.path / "metrics.jsonl").read_text()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    values = json.loads(text, parse_constant=refuse)
    assert values == {"step": 3, "loss": None, "norms": [1.0, None], "by": {"layer": None}, "rate": 0.1 + 0.2}


def test_lines_are_readable_at_once(run: RunFolder) -> None:
    reader = RunFolder(run.path)
    for step in range(1, 4):
        run.metrics.append(step, {"loss": 1 / step})
        assert [line["step"] for line in reader.metrics.read()] == list(range(1, step + 1))


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


def test_rewinding_keeps_the_bytes_of_what_stays(run: RunFolder) -> None:
    for step in range(1, 5):
        run.metrics.append(step, {"loss": 0.1 * step, "text": "ü"})
    before = run.metrics.path.read_bytes().splitlines(keepends=True)
    run.metrics.rewind(2)
    assert run.metrics.path.read_bytes() == b"".join(before[:2])
    assert stat.S_ISREG(run.metrics.path.stat().st_mode)


def test_a_line_that_is_not_json_is_named_and_left_out(run: RunFolder) -> None:
    run.metrics.path.write_text('{"step": 1}\nrubbish\n[2]\n{"loss": 1}\n{"step": 2}\n')
    with pytest.warns(UserWarning, match=r"metrics\.jsonl:[234]: not a line of JSON") as warned:
        assert [line["step"] for line in run.metrics.read()] == [1, 2]
    assert len(warned) == 3


@pytest.mark.parametrize("written", [0, 9])
def test_a_full_disk_leaves_no_half_line(run: RunFolder, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    run.metrics.append(1, {"loss": 1.0})
    write = os.write

    def full(descriptor: int, line: bytes) -> int:
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, line[:written])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="cannot be written .*make room"):
        run.metrics.append(2, {"loss": 1.0})
    monkeypatch.undo()
    run.metrics.append(3, {"loss": 1.0})
    values: list[Any] = [json.loads(line)["step"] for line in run.metrics.path.read_text().splitlines()]
    assert values == [1, 3]
