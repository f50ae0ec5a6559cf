"""`lamina train`, `compare`, `average` and `plan`, as a user calls them."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import api, cli
from lamina.config import to_toml
from lamina.errors import UserError
from lamina.report.comparison_report import ComparisonReport
from lamina.runs.run import Run
from lamina.tasks.base import Losses
from lamina.training.checkpoint import storage as checkpoint
from support.commands import invoke, printed
from support.small_runs import config_for, weights


@pytest.fixture(scope="module")
def config(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learns enough in a few seconds not to count as failed."""
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 1e-2}}
    changes["train"] = {"steps": 60, "save_every": 10, "validate_every": 30}
    changes |= {"model": {"residual": "pre-ln", "model_dim": 32}, "data": {"max_tokens": 600}}
    path = tmp_path_factory.mktemp("commands") / "small.toml"
    path.write_text(to_toml(config_for("language-modelling", stores, **changes)))
    return path


@pytest.fixture(scope="module")
def run(config: Path) -> str:
    folder = str(config.parent / "run")
    shown = printed("train", str(config), "--folder", folder)
    assert re.search(r"^run: finished at step 60$", shown, re.MULTILINE)
    assert re.search(r"^best validation nll \d\.\d{4} \(perplexity [\d.]+\) at step \d0$", shown, re.MULTILINE)
    heading, row = shown.splitlines()[-2:]
    assert heading.split()[:3] == ["set", "loss", "nll"]
    assert row.split()[0] == "valid"
    assert all(float(each) > 0 for each in row.split()[1:])
    return folder


def test_average_takes_all_that_are_kept_by_default(run: str) -> None:
    with pytest.raises(UserError, match=rf"no average yet; make it with lamina average {run}"):
        Run(run).load("average").evaluate()
    shown = printed("average", run)
    assert shown == (
        "The average of step-00000040, step-00000050, step-00000060: "
        f"use it with lamina evaluate {run} --checkpoint average\n"
    )
    mean = checkpoint.load_model(Path(run) / "average")
    parts = [weights(Path(run), f"step-000000{at}") for at in (40, 50, 60)]
    name = "stack.layers.0.sublayers.1.inner.weight"
    assert mean[name].allclose(sum(part[name] for part in parts) / 3, atol=1e-6)
    assert "valid" in printed("evaluate", run, "--checkpoint", "average")
    assert "average of step-00000050, step-00000060:" in printed("average", run, "--last", "2")
    assert not list(Path(run).glob(".average*"))


def test_a_best_one_long_before_is_no_part_of_the_average(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rising = (Losses(torch.tensor(1.0), torch.tensor(float(each)), 1) for each in count())
    monkeypatch.setattr("lamina.tasks.base.Task.total_losses", lambda *given, **options: next(rising))
    config = config_for(
        "translation", stores, train={"steps": 12, "validate_every": 2, "save_every": 2, "keep_checkpoints": 2}
    )
    Run(config, tmp_path / "run").train(quiet=True)
    there = [each.name for each in checkpoint.list_checkpoints(tmp_path / "run" / "checkpoints")]
    assert there == ["step-00000002", "step-00000010", "step-00000012"]
    assert [each.name for each in Run(tmp_path / "run").average()] == there[1:]
    with pytest.raises(UserError, match="3 checkpoints asked for, but 2 kept; train with train.keep_checkpoints=3"):
        Run(tmp_path / "run").average(3)


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_a_damaged_average_is_noticed(damage: str, run: str) -> None:
    Run(run).average()
    file = Path(run) / "average" / "model.safetensors"
    content = file.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    file.write_bytes(content[:-5] if damage == "cut" else flipped)
    with pytest.raises(UserError, match=r"average/model.safetensors: damaged"):
        Run(run).load("average").evaluate()
    Run(run).average()
    Run(run).load("average").evaluate()


def test_average_of_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: not a run folder"):
        Run(tmp_path / "nowhere").average()
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(UserError, match=r"no checkpoint yet"):
        Run(tmp_path).average()


def test_plan(config: Path) -> None:
    shown = printed("plan", str(config), "--gpus", "2", "--teraflops", "10")
    assert re.search(r"^[\d,]+ parameters$", shown, re.MULTILINE)
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.endswith(("GiB", "MiB"))}
    assert list(rows) == ["weights", "gradients", "optimiser", "activations", "total"]
    assert re.search(r"[1-9]\S* gigaFLOPs a step of 600 tokens, .* in all", shown)


def test_train_says_how_a_run_ended_by_its_code(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(to_toml(config_for("translation", stores)))
    arguments = ["train", str(tmp_path / "small.toml"), "--folder", str(tmp_path / "run")]
    short = invoke(*arguments, "train.steps=1")
    assert short.exit_code == 0
    assert "too short at step 1" in short.stdout
    assert "the run ended at step 1 of a warm-up of 3" in short.stdout
    listed = printed("runs", str(tmp_path))
    assert "too short" in listed
    assert "lower schedule.warmup_steps" in listed
    printed("report", str(tmp_path / "run"), "--output", str(tmp_path / "page.md"))
    page = (tmp_path / "page.md").read_text()
    assert "too short" in page.split("Mean")[0]
    assert "post-ln is too short to be judged" in page
    monkeypatch.setattr("lamina.training.divergence.FEWEST_STEPS", 4)
    failed = invoke(*arguments, "train.steps=4")
    assert failed.exit_code == 3
    assert "not below a unigram model's" in failed.stdout


def test_a_comparison_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lamina train own.toml` makes runs/own a run folder."""
    (tmp_path / "own.toml").write_text("[model]\nnum_layers = 1\n")
    called = []

    def play(cells: Any, folder: Path, report: Path, **options: Any) -> ComparisonReport:
        called.append((folder, report))
        return ComparisonReport([], [])

    monkeypatch.setattr(api, "compare_cells", play)
    monkeypatch.setattr(ComparisonReport, "conclusions", [])
    cli.compare(str(tmp_path / "own.toml"), "b2t")
    api.compare(tmp_path / "own.toml", ["b2t"])
    assert called == [(Path("runs/own-compared"), Path("runs/own-compared/report.html"))] * 2
