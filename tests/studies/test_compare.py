"""Runs side by side: trained once, used again, moved aside when outdated, and resumed after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.studies.cells import make_cells
from lamina.studies.compare import Sharing, compare, share_machine
from lamina.studies.summary import compare_and_summarise
from lamina.studies.worker import DIAGNOSED
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
TWO = Sharing(workers=2, threads=1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    sets = {"train": ["translation:60"], "valid": ["translation:6"], "test": ()}
    prepare(source_options("embedded-translation", ".", str(tmp_path / "toy"), tokenizer={"size": 400}, **sets))
    file = tmp_path / "small.toml"
    file.write_text(CONFIG.format(small=SMALL, store=tmp_path / "toy"))
    return file


def losses(path: Path) -> list[float]:
    return [line["loss"] for line in RunFolder(path).metrics.read() if "loss" in line]


def stamps_of(runs: Iterable[Path], *names: str) -> list[int]:
    """When those files were written."""
    return [(run / name).stat().st_mtime_ns for run in runs for name in names]


@pytest.mark.slow
def test_trained_once_then_used_again_and_moved_aside_when_outdated(config: Path, tmp_path: Path) -> None:
    cells, folder = make_cells(config, [], ["post-ln", "b2t"]), tmp_path / "[/runs]"  # a name that rich would choke on
    paths = compare(cells, folder, TWO)
    assert list(paths) == ["post-ln-1-seed1", "b2t-1-seed1"]
    for path in paths.values():
        assert {file.name for file in (path / "diagnosis").iterdir()} == {"start.json", "step-00000004.json"}
    first = {name: losses(path) for name, path in paths.items()}
    assert all(len(values) == 4 for values in first.values())
    assert first["post-ln-1-seed1"] != first["b2t-1-seed1"]
    seconds, memory = RunFolder(paths["b2t-1-seed1"]).cost()
    assert seconds > 0
    assert memory > 50 * 2**20

    stamps = stamps_of(paths.values(), "status.json", DIAGNOSED)
    compare(cells, folder, TWO)
    assert stamps == stamps_of(paths.values(), "status.json", DIAGNOSED)

    compare(make_cells(config, ["schedule.learning_rate=2e-3"], ["b2t"]), folder, TWO)
    former = folder / "b2t-1-seed1.former1"
    assert losses(former) == first["b2t-1-seed1"]
    assert losses(paths["b2t-1-seed1"])[1:] != first["b2t-1-seed1"][1:]


@pytest.mark.slow
def test_a_diagnosis_cut_short_or_outdated_is_made_again_and_the_run_is_not(config: Path, tmp_path: Path) -> None:
    strict = ["diagnose.thresholds.vanishing.warning=1e6", "diagnose.thresholds.vanishing.failure=1e6"]
    (run,) = compare(make_cells(config, [], ["b2t"], ["2"]), tmp_path / "runs", TWO).values()
    trained, start = stamps_of([run], "status.json", "metrics.jsonl"), run / "diagnosis/start.json"
    assert not any(each.severity == "failure" for each in Diagnosis.read(start).findings)
    start.unlink()
    (run / DIAGNOSED).unlink()  # as a kill leaves it
    compare(make_cells(config, [], ["b2t"], ["2"]), tmp_path / "runs", TWO)
    assert start.is_file()
    compare(make_cells(config, strict, ["b2t"], ["2"]), tmp_path / "runs", TWO)
    assert any(each.severity == "failure" for each in Diagnosis.read(start).findings)
    assert stamps_of([run], "status.json", "metrics.jsonl") == trained


@pytest.mark.slow
def test_depths_and_seeds_make_one_report(config: Path, tmp_path: Path) -> None:
    words = ["schedule.learning_rate=3e-2", "train.steps=60", "train.samples=2"]
    cells, page = make_cells(config, words, ["b2t"], ["1", "2-1"], seeds=2), tmp_path / "report.md"
    results = compare_and_summarise(cells, tmp_path / "runs", page)
    assert {(each.layers, each.seed, each.state) for each in results} == {
        (layers, seed, "finished") for layers in ((1, 1), (2, 1)) for seed in (1, 2)
    }
    assert all(each.metrics["bleu"] >= 0 and each.start and each.end and len(each.samples) == 2 for each in results)
    text = page.read_text()
    assert "At depth 2-1 all schemes train" in text
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| b2t")]
    assert [(row[2], row[-2]) for row in rows[:2]] == [("1-1", "2"), ("2-1", "2")], "seeds"
    assert all("±" in row[3] for row in rows[:2])
    assert "## Gradient by layer, 2-1" in text
    assert "## Samples" in text


@pytest.mark.slow
def test_what_finished_is_reported_though_another_run_breaks_off(config: Path, tmp_path: Path) -> None:
    cells, page = make_cells(config, [], ["b2t", "post-ln"]), tmp_path / "report.md"
    with (
        RunFolder(tmp_path / "runs/b2t-1-seed1").claim(),
        pytest.raises(UserError, match=r"b2t-1-seed1 broke off: .*is writing[\s\S]*other runs: .*report.md"),
    ):
        compare_and_summarise(cells, tmp_path / "runs", page)
    assert "| post-ln" in page.read_text()
    assert "| b2t" not in page.read_text()


def test_a_mistake_that_concerns_one_scheme_is_told_before_any_is_trained(config: Path, tmp_path: Path) -> None:
    cells = make_cells(config, ["model.residual_options={dual_scale=0.5}"], ["resi-dual", "b2t"])
    with pytest.raises(UserError, match="b2t-1-seed1: residual scheme 'b2t': unknown option 'dual_scale'"):
        compare(cells, tmp_path / "runs", TWO)
    assert not (tmp_path / "runs").exists()


def test_a_worker_that_breaks_off_is_named_with_its_last_words(config: Path, tmp_path: Path) -> None:
    cells = make_cells(config, ["train.device=cuda"], ["b2t"])
    with pytest.raises(UserError, match=r"b2t-1-seed1 broke off: lamina: .*no GPU"):
        compare(cells, tmp_path / "runs", TWO)


def test_memory_limits_the_workers(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = make_cells(config, [], ["b2t", "post-ln", "pre-ln"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert share_machine(cells, tmp_path / "runs") == Sharing(workers=3, threads=2)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__)  # 1 GiB
    assert share_machine(cells, tmp_path / "runs") == Sharing(workers=1, threads=8)


def test_what_cannot_be_planned_is_limited_by_cores_alone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = {"train": ["text:60"], "valid": ["text:6"], "test": ()}
    store = prepare(source_options("embedded-text", ".", str(tmp_path / "text"), tokenizer={"size": 400}, **sets))
    words = ["task=language-modelling", f"data.store={store.folder}", "model.adaptive_cutoffs=[50, 200]"]
    cells = make_cells(config, words, ["b2t", "post-ln", "pre-ln"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    assert share_machine(cells, tmp_path / "runs") == Sharing(workers=2, threads=1)


@pytest.mark.faults
def test_interrupted_it_keeps_what_is_done_and_goes_on(config: Path, tmp_path: Path) -> None:
    words = ["train.steps=200", "train.save_every=50", "train.validate_every=100", "train.threads=1"]
    whole = compare(make_cells(config, words, ["b2t"]), tmp_path / "whole", TWO)
    command = [sys.executable, "-m", "lamina.cli", "compare", str(config), *words, "--residual", "b2t"]
    command += ["--folder", str(tmp_path / "runs")]
    run = tmp_path / "runs" / "b2t-1-seed1"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    while len(losses(run)) < 20:
        assert process.poll() is None, process.stderr
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    stopped = RunFolder(run).status()
    assert stopped is not None
    assert stopped.state == "stopped"
    assert stopped.step < 200
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert losses(run) == losses(whole["b2t-1-seed1"])
    assert json.loads((run / "cost.json").read_bytes())["seconds"] > 0


@pytest.mark.faults
def test_without_space_it_says_so_and_goes_on_when_there_is_some(config: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: checkpoints do not fit, small files do."""
    command = [sys.executable, "-m", "lamina", "compare", str(config), "--residual", "b2t,post-ln"]
    command += ["--folder", str(tmp_path / "runs")]
    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: limit_files(40_000))
    assert full.returncode == 2
    assert "broke off (and 1 more): lamina: " in full.stderr
    assert "File too large" in full.stderr
    assert "resume the run" in full.stderr
    assert "Traceback" not in full.stderr
    assert subprocess.run(command, capture_output=True).returncode == 0
    ends = [RunFolder(path).status() for path in (tmp_path / "runs").glob("*-seed1")]
    assert [status.step for status in ends if status] == [4, 4]
