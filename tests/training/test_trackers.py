from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamina import UserError
from lamina.runs.runs import train
from lamina.training.callbacks.trackers import open_trackers
from support.small_runs import config_for, interrupted, lines


def test_tensorboard_gets_the_numbers_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    writer = SimpleNamespace(add_scalar=lambda *given: written.append(given), close=lambda: written.append(("closed",)))
    folders = []
    module = SimpleNamespace(SummaryWriter=lambda folder, **options: folders.append((folder, options)) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    (tracker,) = open_trackers(["tensorboard"], tmp_path, done=2)
    tracker.append(3, {"loss": 1.5, "epoch": 0, "note": "no number"})
    tracker.close()
    assert folders == [(str(tmp_path / "tensorboard"), {"purge_step": 3})], "what comes again is shown once"
    assert written == [("loss", 1.5, 3), ("epoch", 0.0, 3), ("closed",)]


def test_weights_and_biases_resumes_a_run_by_an_identity_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step: logged.append((values, step)), finish=lambda: logged.append("closed")
    )
    given: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: given.update(options) or run))
    for name in ("one/first", "two/first"):
        (tmp_path / name).mkdir(parents=True)
    (tracker,) = open_trackers(["wandb"], tmp_path / "one" / "first", done=1)
    tracker.append(2, {"loss": 0.5})
    tracker.close()
    assert given["name"] == "first"
    assert given["resume"] == "allow"
    assert logged == [({"loss": 0.5}, 2), "closed"]
    identity = given["id"]
    open_trackers(["wandb"], tmp_path / "two" / "first", done=0)
    assert given["name"] == "first"
    assert given["id"] != identity, "a run of the same name in another comparison is another run"
    open_trackers(["wandb"], tmp_path / "one" / "first", done=4)
    assert given["id"] == identity


def test_a_run_tells_its_trackers_what_it_tells_the_metrics(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Any, ...]] = []
    purged: list[int] = []
    writer = SimpleNamespace(add_scalar=lambda *given: written.append(given), close=lambda: written.append(("closed",)))
    module = SimpleNamespace(SummaryWriter=lambda folder, purge_step: purged.append(purge_step) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    config = config_for("translation", stores, train={"steps": 4, "validate_every": 2, "track": ("tensorboard",)})
    interrupted(config, tmp_path / "run", after=3)
    train(config, tmp_path / "run", quiet=True)
    assert purged == [1, 4]
    assert written.count(("closed",)) == 2
    for name in ("loss", "rate", "valid_nll"):
        told = [(step, value) for called, value, step in (each for each in written if len(each) == 3) if called == name]
        assert told == lines(tmp_path / "run", name)
        assert told


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_says_what_to_install(
    name: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[track\]'"):
        open_trackers([name], tmp_path, done=0)
