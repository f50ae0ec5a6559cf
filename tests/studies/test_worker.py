"""One run of a comparison: it has ended when it is trained and diagnosed, and its last words are not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.config import to_toml
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.studies import worker
from lamina.studies.worker import is_done
from lamina.training.config import RunConfig


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was trained; nothing else."""
    with RunFolder(tmp_path / "run").claim() as folder:
        folder.store_config(to_toml(RunConfig()))
        folder.set_status("finished", 4)
    return folder.path


def refuse(message: str) -> Any:
    def raises(*_: object, **__: object) -> None:
        raise UserError(message)

    return raises


def test_it_is_done_when_it_is_diagnosed_as_it_would_be_now(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "train", refuse("it is not trained again"))
    monkeypatch.setattr(Run, "diagnose", refuse("its weights are not finite"))
    assert not is_done(run, RunConfig()), "killed before its diagnosis"
    worker._work(run, 1)
    assert is_done(run, RunConfig()), "a model that cannot be measured is not measured again and again"
    other = RunConfig.read({"diagnose": {"thresholds": {"vanishing": {"failure": 0.5}}}}, where="test")
    assert not is_done(run, other)
    with RunFolder(run).claim() as folder:
        folder.set_status("stopped", 3)
    assert not is_done(run, RunConfig())


def test_what_training_says_is_not_lost_where_the_cost_cannot_be_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "status.json").unlink()
    (run / "cost.json").mkdir()
    monkeypatch.setattr(Run, "train", refuse("make room and resume the run"))
    with pytest.raises(UserError, match="make room and resume the run"):
        worker._work(run, 1)
