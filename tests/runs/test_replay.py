"""Replay: a step of a run repeated, with the same bits, and without a change of its folder."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from lamina.cli import app
from lamina.errors import UserError
from lamina.run_folder.checkpoints import step_of
from lamina.runs.run import Run, read_config
from lamina.training.callbacks.base import Callback
from support.trained_runs import trained_run

CHANGES = ["train.log_every=1", "train.save_every=3", "train.keep_checkpoints=2", "model.dropout=0.2"]


def small_run(folder: Path, task: str, *callbacks: Callback, steps: int = 8) -> Path:
    made = trained_run(task, folder, steps=1)
    run = Run(read_config(made, [*CHANGES, f"train.steps={steps}"]), folder / "own")
    run.train(quiet=True, callbacks=callbacks)
    return run.path


def contents(folder: Path) -> dict[str, str]:
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    return {str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def recorded(run: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {each["step"]: each["loss"] for each in lines if "loss" in each}


@pytest.mark.parametrize("task", ["translation", "language-modelling", "classification"])
def test_a_replayed_step_has_the_bits_of_the_run_and_leaves_its_folder(task: str, tmp_path: Path) -> None:
    run = small_run(tmp_path, task)
    before, losses = contents(run), recorded(run)
    kept = [step_of(each) for each in Run(run).folder.list_checkpoints()]
    for step in (2, 8):
        replay = Run(run).replay(step)
        assert replay.repeated_from == max((each for each in kept if each < step), default=0)
        assert replay.update is not None
        assert replay.update.loss == losses[step] == replay.recorded_loss
        assert replay.is_identical
        assert replay.observation is not None
        assert replay.observation.step == step
        squares = sum(each.gradient_norm**2 for each in replay.observation.matrices)
        assert 0 < squares**0.5 <= replay.update.gradient_norm * 1.0001
        assert replay.examples
        assert all(text for fields in replay.examples.values() for text in fields.values())
    assert contents(run) == before


def test_the_command_prints_the_step_and_writes_its_page(tmp_path: Path) -> None:
    run, page = small_run(tmp_path, "translation"), tmp_path / "step.html"
    shown = CliRunner().invoke(app, ["replay", str(run), "--step", "7", "--output", str(page)])
    assert shown.exit_code == 0, shown.output
    for text in ("Step 7", "gradient norm before clipping", "the same bits as in the run's metrics", "encoder layer 1"):
        assert text in " ".join(shown.stdout.split())
    html = page.read_text()
    for text in ("Gradient norms by layer", "Updates by layer", "The residual stream", "The batch", "<svg"):
        assert text in html


class BreakGradient(Callback):
    """Makes a weight infinite after step 4."""

    def on_step(self, training: Any, values: Any) -> None:
        if training.step == 4:
            training.save()
            with torch.no_grad():
                next(training.model.parameters())[5] = math.inf


def test_a_step_that_diverged_is_named(tmp_path: Path) -> None:
    """The weights of the checkpoint are whole; those of the run were changed after it, so the replay is not."""
    run = small_run(tmp_path, "translation", BreakGradient())
    status = Run(run).folder.status()
    assert status is not None
    assert (status.state, status.step) == ("failed", 4)
    replay = Run(run).replay(5)
    assert replay.divergence
    assert replay.update is None
    assert "not finite" in replay.divergence


@pytest.mark.parametrize("step", [0, 9])
def test_a_step_that_the_run_does_not_have(step: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="choose one from 1 to 8"):
        Run(small_run(tmp_path, "translation")).replay(step)
    with pytest.raises(UserError, match="not a run folder"):
        Run(tmp_path / "nothing").replay(1)
