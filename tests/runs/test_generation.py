"""`lamina generate` as a filter between real processes: pipes, breaks, interrupts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lamina.runs.generation import WINDOW
from support.processes import heed_interrupts
from support.trained_runs import trained_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(trained_run("translation", tmp_path_factory.mktemp("trained")))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lamina", "generate", *arguments]


def generate(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), input=given, capture_output=True, text=True)


def test_a_filter_of_lines(run: str, tmp_path: Path) -> None:
    """Empty lines stay empty, a long one is cut and named, JSON has the scores, files serve as well as pipes."""
    lines = ["ma to", "", "ma " * 60, "tu"]
    plain = generate(run, "max_source=20", "max_length=5", given="".join(f"{line}\n" for line in lines))
    assert plain.returncode == 0, plain.stderr
    outputs = plain.stdout.split("\n")
    assert len(outputs) == 5
    assert outputs[1] == outputs[4] == ""
    assert "line 3: cut from" in plain.stderr
    (tmp_path / "in.txt").write_text("\n".join(lines))
    arguments = [run, "max_source=20", "max_length=5", "nbest=2", "--beam", "2", "--output-format", "jsonl"]
    made = generate(*arguments, "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "new" / "out.jsonl"))
    assert made.returncode == 0, made.stderr
    found = [json.loads(line) for line in (tmp_path / "new" / "out.jsonl").read_text().splitlines()]
    assert [each["line"] for each in found] == [1, 2, 3, 4]
    assert [len(each["outputs"]) for each in found] == [2, 0, 2, 2]
    assert set(found[0]["outputs"][0]) == {"text", "score", "log_probability"}


def test_scores_of_given_targets(run: str, tmp_path: Path) -> None:
    (tmp_path / "targets.txt").write_text("tu ma\nto\n")
    scored = generate(run, "--score", str(tmp_path / "targets.txt"), given="ma\ntu\n")
    assert scored.returncode == 0, scored.stderr
    rows = [[float(number) for number in line.split("\t")] for line in scored.stdout.splitlines()]
    assert len(rows) == 2
    assert all(log_probability < 0 and perplexity > 1 for log_probability, perplexity in rows)
    uneven = generate(run, "--score", str(tmp_path / "targets.txt"), given="ma\n")
    assert uneven.returncode == 2
    assert "as many targets as lines" in uneven.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output-format", "xml"], "unknown output format 'xml'"),
        (["nbest=3"], "nbest) need --output-format jsonl"),
        (["baem=3"], "did you mean 'beam'"),
        (["--to", "tuvo"], "no choice of target language"),
        (["--input", "missing.txt"], "missing.txt: no such file"),
        (["in.txt"], "'in.txt' is not of the form key=value, such as length_penalty=1.2"),
        ([__file__], f"is a file, not an option: to read it, say --input {__file__}"),
        (["--score", __file__, "--prefix", "tu"], "--prefix is for outputs that are generated"),
        (["--input", __file__, "--output", __file__], "test_generation.py: is read from, so it cannot be written to"),
    ],
)
def test_mistakes(run: str, arguments: list[str], message: str) -> None:
    failed = generate(run, *arguments, given="a\n")
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_mistakes_leave_an_old_output_as_it_was(run: str, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.write_text("old\n")
    for arguments in (["--to", "tuvo"], ["--score", "missing.txt"], ["max_source=1"]):
        assert generate(run, *arguments, "--output", str(output), given="a\n").returncode == 2
        assert output.read_text() == "old\n"


def test_an_empty_file_is_like_an_empty_pipe(run: str, tmp_path: Path) -> None:
    empty, output = tmp_path / "empty.txt", tmp_path / "out.txt"
    empty.touch()
    for arguments in ([], ["--score", str(empty)]):
        made = generate(run, *arguments, "--input", str(empty), "--output", str(output))
        assert made.returncode == 0, made.stderr
        assert output.read_text() == ""
        output.unlink()


def test_outputs_with_a_prefix(run: str) -> None:
    made = generate(run, "--prefix", "tu ma", "max_length=3", given="ma to\n\nto\n")
    assert made.returncode == 0, made.stderr
    first, empty, last, end = made.stdout.split("\n")
    assert first.startswith("tu ma")
    assert last.startswith("tu ma")
    assert (empty, end) == ("", "")


def test_a_broken_pipe_ends_quietly(run: str) -> None:
    started: Any = subprocess.Popen(
        command(run, "max_length=1", "--beam", "1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    started.stdout.close()
    _, errors = started.communicate(b"ma\n" * 40)
    assert started.returncode != 0
    assert errors == b""


def test_an_interrupt_leaves_finished_lines_written(run: str, tmp_path: Path) -> None:
    """Standard input stays open: what comes out has come before the input's end."""
    output = tmp_path / "out.txt"
    started: Any = subprocess.Popen(
        command(run, "max_length=1", "--beam", "1", "--output", str(output)),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    started.stdin.write(b"ma\n" * (WINDOW + 10))
    started.stdin.flush()
    waited = time.monotonic()
    while not output.exists() or output.read_bytes().count(b"\n") < WINDOW:
        assert started.poll() is None, started.stderr.read()
        assert time.monotonic() < waited + 300
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) != 0
    assert b"Traceback" not in started.stderr.read()
    written = output.read_bytes()
    assert written.endswith(b"\n")
    assert written.count(b"\n") == WINDOW, "the lines of the first window; the next was not full"
