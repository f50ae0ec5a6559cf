"""The table of all runs during a comparison, on a terminal and in a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from lamina.report.terminal import progress_table as module
from lamina.report.terminal.progress_table import ProgressTable, draw
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import RunState


def begin(path: Path, state: RunState, step: int) -> Path:
    """A run that has been logged at a step."""
    with RunFolder(path).claim() as run:
        run.metrics.append(step, {"nll": 2.5, "tokens_per_second": 1234.0})
        run.metrics.append(step, {"valid_nll": 2.25})
        run.set_status(state, step)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, tuple[Path, int]]:
    states: dict[str, RunState] = {"b2t": "running", "killed": "running", "pre-ln": "finished", "post-ln": "failed"}
    paths = {name: begin(tmp_path / name, state, 40) for name, state in states.items()} | {"admin": tmp_path / "admin"}
    return {name: (path, 100) for name, path in paths.items()}


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_state_of_a_run(runs: dict[str, tuple[Path, int]]) -> None:
    table = ProgressTable(runs)
    found = {name: table.read(name, active=name == "b2t") for name in runs}
    assert {name: each.state for name, each in found.items()} == {
        "b2t": "running",
        "killed": "waiting",  # no worker trains it now
        "pre-ln": "finished",
        "post-ln": "failed",
        "admin": "waiting",
    }
    here = found["b2t"]
    assert (here.step, here.steps, here.loss, here.validation_loss, here.tokens_per_second) == (
        40,
        100,
        2.5,
        2.25,
        1234.0,
    )


def test_the_steps_of_a_run_in_epochs_are_those_of_its_status(tmp_path: Path) -> None:
    path = begin(tmp_path / "run", "running", 40)
    table = ProgressTable({"run": (path, None)})
    assert table.read("run", active=True).steps == 40, "not known yet"
    with RunFolder(path).claim() as run:
        run.set_status("running", 40, planned_steps=160)
    assert table.read("run", active=True).steps == 160


def test_the_time_left_follows_from_the_steps_since_it_was_taken_up(
    runs: dict[str, tuple[Path, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [50.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    table = ProgressTable(runs)
    table.read("b2t", active=True)
    clock[0] += 30.0
    begin(runs["b2t"][0], "running", 60)
    assert table.read("b2t", active=True).seconds_left == 60.0  # 20 steps took 30 s, 40 are left


def test_the_table_has_a_row_for_every_run(runs: dict[str, tuple[Path, int]]) -> None:
    table, console = ProgressTable(runs), Console(file=io.StringIO(), width=120)
    console.print(draw({name: table.read(name, active=name == "b2t") for name in runs}))
    rows = {line.split()[0]: line.split() for line in written(console).splitlines()}
    assert rows["b2t"][-5:] == ["40", "2.500", "2.250", "1,234", "running"]
    assert rows["post-ln"][-1] == "failed"
    assert rows["admin"][-2:] == ["0", "waiting"]


def test_on_a_terminal_the_last_table_stays(runs: dict[str, tuple[Path, int]]) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with ProgressTable(runs, console).shown() as table:
        table.update({"b2t"})
        begin(runs["b2t"][0], "finished", 100)
        table.update(set())
    rows = [line for line in written(console).splitlines() if "━" in line]
    assert all(name in row for name, row in zip(runs, rows[-5:], strict=True))
    assert "finished" in rows[-5]


def test_in_a_log_every_change_is_a_line(runs: dict[str, tuple[Path, int]]) -> None:
    console = Console(file=io.StringIO(), width=120)
    with ProgressTable(runs, console).shown() as table:
        for _ in range(3):
            table.update({"b2t"})
        begin(runs["b2t"][0], "finished", 100)
        table.update(set())
    lines = written(console).splitlines()
    assert [line for line in lines if line.startswith("b2t")] == ["b2t: running, step 40", "b2t: finished, step 100"]
    assert lines.count("post-ln: failed, step 40") == 1
