"""The status: it seals itself and records the files of a run, and no kill makes a good folder look damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.checkpoints import name_step
from lamina.run_folder.folder import RunFolder
from lamina.tasks.base import SampleOutput


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with two checkpoints, metrics, samples and a config, as it is at the second checkpoint."""
    run = RunFolder(tmp_path / "run").claim()
    run.store_config("seed = 1\n")
    for step in (2, 4):
        run.metrics.append(step, {"loss": 1.0 / step})
        run.samples.append(step, [SampleOutput("source", "reference", "output")])
        run.checkpoint(step).mkdir()
    run.latest.symlink_to(name_step(4))
    run.best.symlink_to(name_step(2))
    run.training_diagnosis.write_text("{}")
    run.set_status("running", 4)
    assert run.changed_files() == {}
    return run


def changes(run: RunFolder) -> dict[str, str]:
    return {str(file.relative_to(run.path)): reason for file, reason in RunFolder(run.path).changed_files().items()}


def test_every_flipped_byte_of_the_status_is_noticed(run: RunFolder) -> None:
    content = run.status_file.read_bytes()
    for at in range(0, len(content), 7):
        run.status_file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(UserError, match=r"status\.json: cannot be understood"):
            run.status()


def test_a_status_without_a_hash_is_read(run: RunFolder) -> None:
    """As earlier versions wrote it: without records, nothing is compared."""
    old = {key: json.loads(run.status_file.read_bytes())[key] for key in ("state", "step", "started", "updated")}
    run.status_file.write_text(json.dumps(old))
    run.metrics.path.unlink()
    assert run.changed_files() == {}


@pytest.mark.parametrize(
    ("damage", "changed"),
    [
        (lambda run: run.metrics.path.write_bytes(b""), {"metrics.jsonl": "0 bytes long instead of 51"}),
        (lambda run: run.samples.path.unlink(), {"samples.jsonl": "missing"}),
        (
            lambda run: run.metrics.path.write_text(run.metrics.path.read_text().replace("0.5", "0.6")),
            {"metrics.jsonl": "its content has changed"},
        ),
        (lambda run: run.config.write_text("seed = 2\n"), {"config.toml": "its content has changed"}),
        (lambda run: run.training_diagnosis.unlink(), {"diagnosis/training.json": "missing"}),
        (lambda run: run.best.unlink(), {"checkpoints/best": "missing, it pointed to step-00000002"}),
    ],
)
def test_changed_files_are_named(run: RunFolder, damage: Callable[[RunFolder], None], changed: dict[str, str]) -> None:
    damage(run)
    assert changes(run) == changed


def test_a_link_to_another_checkpoint_is_named(run: RunFolder) -> None:
    run.best.unlink()
    run.best.symlink_to(name_step(4))
    assert changes(run) == {"checkpoints/best": "points to step-00000004 instead of step-00000002"}


def test_what_a_process_writes_before_it_is_killed_is_no_damage(run: RunFolder) -> None:
    """Lines after the last status, half a line, and a checkpoint with its links."""
    run.metrics.append(5, {"loss": 0.1})
    with run.metrics.path.open("a") as handle:
        handle.write('{"step": 6, "lo')
    run.checkpoint(6).mkdir()
    for link in (run.latest, run.best):
        link.unlink()
        link.symlink_to(name_step(6))
    assert changes(run) == {}


def test_after_the_end_nothing_may_be_added(run: RunFolder) -> None:
    run.set_status("finished", 4)
    run.metrics.append(5, {"loss": 0.1})
    assert changes(run) == {"metrics.jsonl": "76 bytes long instead of 51"}


def test_a_kill_while_a_run_is_resumed_is_no_damage(run: RunFolder) -> None:
    """Whichever of the writes is the last one."""
    writes = [
        lambda: run.unseal(2),
        lambda: run.metrics.rewind(2),
        lambda: run.samples.rewind(2),
        lambda: run.store_config("seed = 1\nlog_every = 2\n"),
        lambda: run.set_status("running", 2),
        lambda: run.metrics.append(3, {"loss": 0.3}),
        lambda: run.set_status("finished", 3),
    ]
    for write in writes:
        write()
        assert changes(run) == {}
    run.metrics.path.write_bytes(run.metrics.path.read_bytes()[:10])
    assert "metrics.jsonl" in changes(run)


def test_a_new_config_is_recorded_at_once(run: RunFolder) -> None:
    run.store_config("seed = 3\n")
    assert changes(run) == {}
    run.config.write_text("seed = 1\n")
    assert "config.toml" in changes(run)
    run.accept_config()
    assert changes(run) == {}


def test_damage_that_a_resume_leaves_behind_is_not_forgotten(run: RunFolder) -> None:
    run.metrics.path.write_bytes(b"")
    run.unseal(4)
    run.set_status("finished", 4)
    assert changes(run) == {}
    with pytest.warns(UserWarning, match=r"metrics\.jsonl: 0 bytes long instead of 51.*resumed at step 4"):
        run.warn_of_results()
    run.unseal(0)
    status = run.status()
    assert status is not None
    assert status.notes == ()


def test_a_status_that_is_rewritten_during_the_comparison_is_read_again(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = run.status()
    run.metrics.rewind(2)
    run.set_status("running", 2)
    answers = iter([old, run.status()])
    monkeypatch.setattr(run, "status", lambda: next(answers, None))
    assert run.changed_files() == {}
