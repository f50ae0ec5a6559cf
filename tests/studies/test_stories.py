"""What a report reads from run folders, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.errors import UserError
from lamina.studies.stories import read_stories
from trained_runs import trained_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stories")
    for task in ("translation", "language-modelling"):
        trained_run(task, folder)
    return folder / "runs"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "translation", tmp_path / "run", symlinks=True))


def change_status(run: Path, **changes: Any) -> None:
    file = run / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_run_tells_its_story(made: Path) -> None:
    (story,) = read_stories([made / "translation"])
    assert (story.name, story.scheme, story.depth, story.state) == ("translation", "pre-ln", "1-1", "failed")
    assert story.reason
    assert [step for step, _ in story.curves["training loss"]] == [1], "logged every 10 steps, and the first"
    assert story.metrics["validation loss"] > 0


def test_runs_of_different_tasks_are_not_shown_together(made: Path) -> None:
    with pytest.raises(UserError, match="translation is a run of translation, .*modelling of language-modelling"):
        read_stories([made / "translation", made / "language-modelling"])


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder, or one that never started"):
        read_stories([tmp_path])


def test_the_version_that_wrote_a_run_is_named_when_it_cannot_be_read(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("[train]", "[train]\nfuture = 3"))
    with pytest.raises(UserError, match=r"config.toml: train: unknown option 'future'.*$") as ours:
        read_stories([run])
    assert "Lamina" not in str(ours.value)
    change_status(run, version="9.1")
    with pytest.raises(UserError, match=rf"'future'.* written by Lamina 9.1, this is {lamina.__version__}$"):
        read_stories([run])


def test_a_status_of_another_version_or_damaged(run: Path) -> None:
    change_status(run, version="9.1", mood="calm")
    with pytest.raises(UserError, match="status.json: cannot be understood; the run was written by Lamina 9.1"):
        read_stories([run])
    (run / "status.json").write_text("{")
    with pytest.raises(UserError, match="status.json: cannot be understood; damaged, or not Lamina's: delete it"):
        read_stories([run])


def test_a_diagnosis_of_another_version(run: Path) -> None:
    (run / "diagnosis" / "start.json").write_text('{"version": 2}')
    with pytest.raises(UserError, match="start.json: not a diagnosis, or one of another version; make it again"):
        read_stories([run])
