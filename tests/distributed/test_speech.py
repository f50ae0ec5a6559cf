"""Speech recognition on two processes, replicated and sharded: the same updates as on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.runs.run import Run
from support.distributed_jobs import WAYS, Job, assert_same_run, job, numbers, work_together
from support.processes import run_in_processes

pytestmark = pytest.mark.distributed


def speech(root: Path, name: str, way: str = "ddp") -> Job:
    """A run with CTC, masks and micro-batches; utterances of some 200 frames, four or five in a batch."""
    made = job(root, name, way, model={"residual": "b2t", "front_end_channels": 8}, accumulate=2)
    options: dict[str, Any] = {"ctc_weight": 0.3, "spec_augment": {"frequency_width": 20, "time_width": 30}}
    data = {"store": str(root / "speech"), "max_tokens": 1000, "oversize": "alone"}
    return made._replace(values=made.values | {"task": "speech-recognition", "task_options": options, "data": data})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("speech")
    sets = {"train": ["speech:40"], "valid": ["speech:4"], "test": ()}
    prepare(source_options("embedded-speech", ".", str(root / "speech"), **sets))
    Run(speech(root, "one").config, root / "one").train(quiet=True)
    run_in_processes(2, work_together, [speech(root, f"two-{way}", way) for way in WAYS])
    return root


@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_as_one(way: str, root: Path) -> None:
    assert_same_run(root / "one", root / f"two-{way}")
    assert numbers(root / "one")[-1] < numbers(root / "one")[0]
