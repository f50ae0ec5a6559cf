"""Comparisons: runs are trained once, reused, renamed when outdated, and resumed after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from lamina import residual
from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run, read_config
from lamina.studies.cells import GridCell, make_cells
from lamina.studies.compare import IncompleteComparison, compare, train_cells
from lamina.studies.engines.local import LocalEngine
from support.processes import heed_interrupts, limit_files

SMALL = Path(__file__).parents[1] / "support" / "small.toml"
CONFIG = """
extends = "{small}"
[data]
store = "{store}"
[model]
num_layers = 1
[schedule]
name = "constant"
[train]
steps = 4
save_every = 2
validate_every = 2
log_every = 1
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(tmp_path / "toy"), tokenizer={"size": 400}, **sets))
    file = tmp_path / "small.toml"
    file.write_text(CONFIG.format(small=SMALL, store=tmp_path / "toy"))
    return file


def cells_of(
    config: Path, schemes: Sequence[str], overrides: Sequence[str] = (), depths: Sequence[str] = (), seeds: int = 1
) -> list[GridCell]:
    return make_cells(read_values(config, overrides), schemes, depths, seeds)


def trained(cells: Sequence[GridCell], folder: Path) -> dict[str, Path]:
    """The folders of the cells, by name, all of which ended without an error."""
    assert train_cells(cells, folder, LocalEngine(2)) == {}
    return {cell.name: folder / cell.name for cell in cells}


def losses(path: Path) -> list[float]:
    return [line["loss"] for line in RunFolder(path).metrics.read() if "loss" in line]


def stamps_of(runs: Iterable[Path], *names: str) -> list[int]:
    """The modification times of those files."""
    return [(run / name).stat().st_mtime_ns for run in runs for name in names]


@pytest.mark.slow
def test_trained_once_then_used_again_and_moved_aside_when_outdated(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, folder = cells_of(config, ["post-ln", "b2t"]), tmp_path / "[/runs]"  # a name that rich would choke on
    paths = trained(cells, folder)
    assert list(paths) == ["post-ln-1-seed1", "b2t-1-seed1"]
    for path in paths.values():
        assert {file.name for file in (path / "diagnosis").iterdir()} == {"start.json", "step-00000004.json"}
    first = {name: losses(path) for name, path in paths.items()}
    assert all(len(values) == 4 for values in first.values())
    assert first["post-ln-1-seed1"] != first["b2t-1-seed1"]
    cost = RunFolder(paths["b2t-1-seed1"]).cost.read()
    assert cost is not None
    assert cost.seconds > 0
    assert cost.memory > 50 * 2**20

    stamps = stamps_of(paths.values(), "status.json", "diagnosed.json")
    trained(cells, folder)
    assert stamps == stamps_of(paths.values(), "status.json", "diagnosed.json")

    capsys.readouterr()
    trained(cells_of(config, ["b2t"], ["schedule.learning_rate=2e-3"]), folder)
    assert "b2t-1-seed1 is trained again (schedule.learning_rate: 0.001 -> 0.002)" in capsys.readouterr().err
    former = folder / "b2t-1-seed1.former1"
    assert losses(former) == first["b2t-1-seed1"]
    assert losses(paths["b2t-1-seed1"])[1:] != first["b2t-1-seed1"][1:]

    monkeypatch.setattr(residual.find("b2t"), "result_version", 2)
    stamps = stamps_of([paths["post-ln-1-seed1"]], "status.json")
    trained(cells, folder)
    assert "result version of scheme b2t: 1 -> 2" in capsys.readouterr().err
    assert (folder / "b2t-1-seed1.former2").is_dir()
    assert stamps_of([paths["post-ln-1-seed1"]], "status.json") == stamps


@pytest.mark.slow
def test_a_diagnosis_cut_short_or_outdated_is_made_again_and_the_run_is_not(config: Path, tmp_path: Path) -> None:
    strict = ["diagnose.thresholds.vanishing.warning=1e6", "diagnose.thresholds.vanishing.failure=1e6"]
    (run,) = trained(cells_of(config, ["b2t"], depths=["2"]), tmp_path / "runs").values()
    stamps, start = stamps_of([run], "metrics.jsonl"), run / "diagnosis/start.json"
    ended = RunFolder(run).status()
    assert not any(each.severity == "failure" for each in Diagnosis.read(start).findings)
    start.unlink()
    (run / "diagnosed.json").unlink()  # as a kill leaves it
    trained(cells_of(config, ["b2t"], depths=["2"]), tmp_path / "runs")
    assert start.is_file()
    trained(cells_of(config, ["b2t"], strict, ["2"]), tmp_path / "runs")
    assert any(each.severity == "failure" for each in Diagnosis.read(start).findings)
    assert stamps_of([run], "metrics.jsonl") == stamps
    status = RunFolder(run).status()
    assert status is not None
    assert ended is not None
    assert status.model_copy(update={"files": ended.files}) == ended  # only the record of the config, which has changed


@pytest.mark.slow
def test_depths_and_seeds_make_one_report(config: Path, tmp_path: Path) -> None:
    overrides = ["schedule.learning_rate=3e-2", "train.steps=60", "train.samples=2"]
    cells, page = cells_of(config, ["b2t"], overrides, ["1", "2-1"], seeds=2), tmp_path / "report.md"
    results = compare(cells, tmp_path / "runs", page).results
    assert {(result.layers, result.seed, result.state) for result in results} == {
        (layers, seed, "finished") for layers in ((1, 1), (2, 1)) for seed in (1, 2)
    }
    assert all(
        result.metrics["bleu"] >= 0 and result.start and result.end and len(result.samples) == 2 for result in results
    )
    text = page.read_text()
    assert "At depth 2-1 b2t trains" in text
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| b2t")]
    assert [(row[2], row[-2]) for row in rows[:2]] == [("1-1", "2"), ("2-1", "2")], "seeds"
    assert all("±" in row[3] for row in rows[:2])
    assert "## Gradient by layer, 2-1" in text
    assert "## Samples" in text


@pytest.mark.slow
def test_what_finished_is_reported_though_another_run_ends_with_an_error(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, page = cells_of(config, ["b2t", "post-ln"]), tmp_path / "report.md"
    train = LocalEngine.submit

    def submit(engine: LocalEngine, run: Path, *, diagnose: bool = True) -> Future[int]:
        if run.name != "b2t-1-seed1":
            return train(engine, run, diagnose=diagnose)
        RunFolder(run).log.write_text("lamina: the disk is full\n")
        ended: Future[int] = Future()
        ended.set_result(2)
        return ended

    monkeypatch.setattr(LocalEngine, "submit", submit)
    message = r"b2t-1-seed1 ended with an error: .*disk is full[\s\S]*other runs: .*report.md"
    with pytest.raises(UserError, match=message):
        compare(cells, tmp_path / "runs", page)
    assert "| post-ln" in page.read_text()
    assert "| b2t" not in page.read_text()


def test_a_run_that_another_process_trains_is_refused(config: Path, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "runs/b2t-1-seed1").claim(),
        pytest.raises(UserError, match=r"b2t-1-seed1: process \d+ on .* is writing in this folder"),
    ):
        compare(cells_of(config, ["b2t", "post-ln"]), tmp_path / "runs", tmp_path / "report.md")


def test_a_mistake_that_concerns_one_scheme_is_told_before_any_is_trained(config: Path, tmp_path: Path) -> None:
    overrides = ["model.residual_options={dual_scale=0.5}"]
    assert len(cells_of(config, ["resi-dual"], overrides)) == 1
    with pytest.raises(UserError, match=r"config with b2t: .*residual_options.*unknown option 'dual_scale'"):
        trained(cells_of(config, ["resi-dual", "b2t"], overrides), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_run_that_ends_with_an_error_is_named_with_its_last_message(config: Path, tmp_path: Path) -> None:
    cells = cells_of(config, ["b2t"], ["train.device=cuda"])
    with pytest.raises(IncompleteComparison, match=r"b2t-1-seed1 ended with an error: lamina: .*no GPU") as raised:
        compare(cells, tmp_path / "runs", tmp_path / "report.md")
    assert f"Its log is {tmp_path / 'runs/b2t-1-seed1/log.txt'}" in str(raised.value)
    assert raised.value.report is None
    assert not (tmp_path / "report.md").exists()


class PlayedEngine:
    """Ends each run with the exit codes it is given, one after the other."""

    def __init__(self, **codes: list[int]) -> None:
        self.codes, self.submitted, self.closed = codes, list[str](), False

    def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
        self.submitted.append(run.name)
        future = Future[int]()
        future.set_result(self.codes[run.name.partition("-")[0]].pop(0))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.closed = cancel_futures


def test_a_run_that_another_process_trains_is_neither_moved_nor_changed(config: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "b2t-1-seed1")
    with folder.claim():
        folder.set_status("running", 1)  # without a fingerprint, so that it would be moved aside
        engine = PlayedEngine(b2t=[0])
        with pytest.raises(UserError, match=rf"b2t-1-seed1: process {os.getpid()} on \S+ is writing in this folder"):
            train_cells(cells_of(config, ["b2t"]), tmp_path, engine)
        assert engine.submitted == []
        assert not folder.config.exists()
        assert not list(tmp_path.glob("*.former*"))


def test_exit_codes(config: Path, tmp_path: Path) -> None:
    """0 and 3 are results, 75 is put back into the queue, anything else is an error."""
    engine = PlayedEngine(b2t=[75, 75, 0], admin=[3], dlcl=[-9], keel=[1], siamese=[-11])
    errors = train_cells(cells_of(config, ["b2t", "admin", "dlcl", "keel", "siamese"]), tmp_path, engine)
    assert errors == {
        "dlcl-1-seed1": "it was killed by signal 9 (SIGKILL), perhaps for lack of memory",
        "keel-1-seed1": "exit code 1, and no message",
        "siamese-1-seed1": "it was killed by signal 11 (SIGSEGV)",
    }
    assert engine.submitted.count("b2t-1-seed1") == 3
    assert len(engine.submitted) == 7
    assert engine.closed


def test_memory_limits_the_workers(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(read_config(config), tmp_path / "run")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    engine = LocalEngine.for_runs(3, run)
    assert (engine.workers, engine.threads) == (3, 2)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__)  # 1 GiB
    engine = LocalEngine.for_runs(3, run)
    assert (engine.workers, engine.threads) == (1, 8)


def test_what_cannot_be_planned_is_limited_by_cores_alone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = {"train": ["text:60"], "valid": ["text:6"], "test": ()}
    store = prepare(source_options("embedded-text", ".", str(tmp_path / "text"), tokenizer={"size": 400}, **sets))
    overrides = ["task=language-modelling", f"data.store={store.folder}", "model.adaptive_cutoffs=[50, 200]"]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    engine = LocalEngine.for_runs(3, Run(read_config(config, overrides), tmp_path / "run"))
    assert (engine.workers, engine.threads) == (2, 1)


@pytest.mark.faults
def test_an_interrupted_comparison_keeps_finished_runs_and_continues(config: Path, tmp_path: Path) -> None:
    overrides = ["train.steps=200", "train.save_every=50", "train.validate_every=100", "train.threads=1"]
    whole = trained(cells_of(config, ["b2t"], overrides), tmp_path / "whole")
    command = [sys.executable, "-m", "lamina", "compare", str(config), *overrides, "--residual", "b2t"]
    command += ["--folder", str(tmp_path / "runs")]
    run = tmp_path / "runs" / "b2t-1-seed1"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    while len(losses(run)) < 20:
        assert process.poll() is None, process.stderr
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "the same command continues from there" in said
    stopped = RunFolder(run).status()
    assert stopped is not None
    assert stopped.state == "stopped"
    assert stopped.step < 200
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert losses(run) == losses(whole["b2t-1-seed1"])
    assert json.loads((run / "cost.json").read_bytes())["seconds"] > 0


@pytest.mark.faults
def test_a_full_disk_is_reported_and_the_comparison_continues_with_more_space(config: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: checkpoints do not fit, small files do."""
    command = [sys.executable, "-m", "lamina", "compare", str(config), "--residual", "b2t,post-ln"]
    command += ["--folder", str(tmp_path / "runs")]
    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: limit_files(40_000))
    assert full.returncode == 2
    assert "ended with an error (and 1 more): lamina: " in full.stderr
    assert "File too large" in full.stderr
    assert "resume the run" in full.stderr
    assert "Traceback" not in full.stderr
    assert subprocess.run(command, capture_output=True).returncode == 0
    ends = [RunFolder(path).status() for path in (tmp_path / "runs").glob("*-seed1")]
    assert [status.step for status in ends if status] == [4, 4]
