"""Edited configs and checkpoints of other runs are refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.checkpoints import COUNTERS, MANIFEST, ORIGIN, name_step
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.seal import seal
from lamina.runs.origin import read_origin
from lamina.runs.run import Run
from support.small_runs import config_for, interrupted


@pytest.fixture(scope="module")
def started(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps."""
    folder = tmp_path_factory.mktemp("origin") / "run"
    config = config_for("translation", stores, train={"steps": 4})
    Run(config, folder).train(quiet=True)
    return folder


@pytest.fixture
def run(started: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(started, tmp_path / "run", symlinks=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("learning_rate = 0.001", "learning_rate = 0.002", "schedule.learning_rate: was 0.001, is 0.002"),
        ("seed = 1\n", "seed = 2\n", "seed: was 1, is 2"),
    ],
)
def test_an_edited_config_is_refused(run: RunFolder, old: str, new: str, message: str) -> None:
    text = run.config.read_text()
    assert old in text
    run.config.write_text(text.replace(old, new, 1))
    for use in (lambda: Run(run.path).train(quiet=True), lambda: Run(run.path).load()):
        with pytest.raises(UserError, match=message):
            use()


def test_half_a_config_is_refused(run: RunFolder) -> None:
    text = run.config.read_text()
    run.config.write_text(text[: text.index("[schedule]")])
    with pytest.raises(UserError, match="changed since the checkpoints were written"):
        Run(run.path).train(quiet=True)


def test_what_does_not_affect_results_may_be_edited(run: RunFolder) -> None:
    text = run.config.read_text()
    run.config.write_text(text.replace("log_every = 1\n", "log_every = 2\n"))
    assert run.config.read_text() != text
    Run(run.path).load("latest")


def test_a_checkpoint_of_another_run_is_refused(run: RunFolder, stores: Path, tmp_path: Path) -> None:
    """The same config, trained a second time, is another run."""
    other = config_for("translation", stores, train={"steps": 8})
    Run(other, tmp_path / "other").train(quiet=True)
    shutil.copytree(tmp_path / "other" / "checkpoints" / name_step(8), run.checkpoints / name_step(8))
    for use in (lambda: Run(run.path).train(quiet=True), lambda: Run(run.path).load(name_step(8))):
        with pytest.raises(UserError, match=rf"{name_step(8)}: this checkpoint was written by another run"):
            use()


def test_checkpoints_without_an_origin_are_accepted(stores: Path, tmp_path: Path) -> None:
    """Such as those of the version before."""
    config = config_for("translation", stores, train={"steps": 6})
    interrupted(config, tmp_path / "run", after=4)
    assert read_origin(tmp_path / "run" / "checkpoints" / name_step(4)) is None
    assert Run(config, tmp_path / "run").train(quiet=True).step == 6


def test_a_forced_change_is_sealed_with_the_next_checkpoint(run: RunFolder, stores: Path) -> None:
    changed = config_for("translation", stores, schedule={"learning_rate": 2e-3}, train={"steps": 8})
    Run(changed, run.path).train(quiet=True, force=True)
    assert Run(run.path).load("latest").config.schedule.learning_rate == 2e-3
    Run(run.path).load(run.list_checkpoints()[0].name)


@pytest.mark.parametrize(
    "changes", [{"epoch": 10**30}, {"index": -1}, {"index": 3, "epoch": 0, "step": 10**40}, {"step": "4"}, {"best": 3}]
)
def test_resealed_counters_out_of_range_are_refused(run: RunFolder, changes: dict[str, object], stores: Path) -> None:
    saved = run.checkpoints / name_step(4)
    counters = json.loads((saved / COUNTERS).read_bytes())
    assert counters[ORIGIN]["run"]
    (saved / COUNTERS).write_text(json.dumps(counters | changes))
    (saved / MANIFEST).unlink()
    seal(saved)
    with pytest.raises(UserError, match="the counters of the checkpoint cannot be understood"):
        Run(config_for("translation", stores, train={"steps": 8}), run.path).train(quiet=True)


def test_half_a_config_before_the_first_checkpoint_is_refused(run: RunFolder) -> None:
    """Nothing but the status has seen it whole."""
    shutil.rmtree(run.checkpoints)
    with run.claim():
        run.set_status("stopped", 0)
    text = run.config.read_text()
    run.config.write_text(text[: text.index("[schedule]")])
    with (
        pytest.warns(UserWarning, match=r"config\.toml"),
        pytest.raises(UserError, match=r"config\.toml: .* instead of .*before the first checkpoint; undo the change"),
    ):
        Run(run.path).train(quiet=True)


def test_an_edit_that_does_not_affect_results_is_reported_until_it_is_accepted(run: RunFolder) -> None:
    text = run.config.read_text()
    run.config.write_text(text.replace("log_every = 1\n", "log_every = 2\n"))
    with pytest.warns(UserWarning, match=rf"config\.toml: .*changed by hand; lamina train {run.path} accepts it"):
        Run(run.path).load("latest")
    with pytest.warns(UserWarning, match=r"config\.toml"):
        Run(run.path).train(quiet=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Run(run.path).load("latest")


def test_without_a_status_the_checkpoints_are_compared_with_each_other(run: RunFolder) -> None:
    run.status_file.unlink()
    with pytest.warns(
        UserWarning, match=r"status\.json: missing, so the checkpoints are compared only with each other"
    ):
        Run(run.path).load("latest")
    first = run.list_checkpoints()[0]
    change_origin(first, run="another")
    with (
        pytest.warns(UserWarning, match=r"status\.json"),
        pytest.raises(UserError, match=rf"{first.name}: .* another run than the latest one"),
    ):
        Run(run.path).load("latest")


def test_a_lost_status_is_written_again_with_the_identity_of_the_checkpoints(run: RunFolder) -> None:
    before = run.status()
    run.status_file.unlink()
    with pytest.warns(UserWarning, match=r"status\.json: missing"):
        Run(run.path).train(quiet=True)
    after = run.status()
    assert before is not None
    assert after is not None
    assert (after.run, after.step) == (before.run, before.step)


def test_a_manifest_of_other_data_is_refused(run: RunFolder) -> None:
    """With the tokenizer of another store of the same size, outputs would be others."""
    for checkpoint in run.list_checkpoints():
        change_origin(checkpoint, data="of another store")
    for use in (lambda: Run(run.path).train(quiet=True), lambda: Run(run.path).load()):
        with pytest.raises(UserError, match=r"manifest\.json: describes other data than the checkpoints"):
            use()


def change_origin(checkpoint: Path, **changes: str) -> None:
    counters = json.loads((checkpoint / COUNTERS).read_bytes())
    counters[ORIGIN] |= changes
    (checkpoint / COUNTERS).write_text(json.dumps(counters))
    (checkpoint / MANIFEST).unlink()
    seal(checkpoint)
