"""Samples are written at every validation, by the first process only."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamina.run_folder.samples import SamplesFile
from lamina.tasks.base import SampleOutput
from lamina.training.callbacks.samples import WriteSamples
from lamina.training.distributed.world import ALONE, World
from support.small_runs import config_for

OUTPUTS = [SampleOutput("ein", "one", "a"), SampleOutput("zwei", "two", "b"), SampleOutput("drei", "three", "c")]


def training(path: Path, world: World = ALONE, outputs: list[SampleOutput] = OUTPUTS) -> Any:
    """What the callback uses of a training."""
    validation = SimpleNamespace(samples=lambda count: outputs[:count])
    return SimpleNamespace(
        step=7, validation=validation, world=world, folder=SimpleNamespace(samples=SamplesFile(path / "samples.jsonl"))
    )


def test_as_many_as_were_asked_for_with_their_step(tmp_path: Path) -> None:
    WriteSamples(2).on_validation(training(tmp_path), {})
    assert list(SamplesFile(tmp_path / "samples.jsonl").read()) == [(7, OUTPUTS[0]), (7, OUTPUTS[1])]


@pytest.mark.parametrize(("rank", "outputs"), [(1, OUTPUTS), (0, [])])
def test_nothing_by_other_processes_or_without_outputs(rank: int, outputs: list[SampleOutput], tmp_path: Path) -> None:
    WriteSamples(2).on_validation(training(tmp_path, World(rank, 2, ALONE.device), outputs), {})
    assert not (tmp_path / "samples.jsonl").exists()


def test_a_run_has_them_in_its_folder(stores: Path, tmp_path: Path) -> None:
    from lamina.runs.run import Run

    changes = {"steps": 2, "validate_every": 1, "samples": 2}
    run = Run(config_for("translation", stores, train=changes), tmp_path / "run")
    run.train(quiet=True)
    assert [step for step, _ in run.folder.samples.read()] == [1, 1, 2, 2]
