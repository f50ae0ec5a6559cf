"""TensorBoard and Weights & Biases get the numbers of metrics.jsonl."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamina import UserError
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.callbacks.trackers import TRACKERS
from support.small_runs import config_for, interrupted, lines


def at_step(step: int, folder: Path, first: bool = True) -> Any:
    """The attributes of a training that a tracker reads."""
    return SimpleNamespace(step=step, folder=RunFolder(folder), world=SimpleNamespace(is_first=first))


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_of_several_processes_the_first_alone_tracks(
    name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("torch.utils.tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace())  # whatever is called is missing
    tracker, training = TRACKERS[name](), at_step(0, tmp_path, first=False)
    tracker.on_start(training)
    tracker.on_log(training, {"loss": 1.0})
    tracker.on_end(training)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_gets_the_numbers_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    writer = SimpleNamespace(add_scalar=lambda *given: written.append(given), close=lambda: written.append(("closed",)))
    folders = []
    module = SimpleNamespace(SummaryWriter=lambda folder, **options: folders.append((folder, options)) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    tracker = TRACKERS["tensorboard"]()
    training = at_step(2, tmp_path)
    tracker.on_start(training)
    training.step = 3
    tracker.on_log(training, {"loss": 1.5, "epoch": 0, "note": "no number"})
    tracker.on_end(training)
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
    tracker, training = TRACKERS["wandb"](), at_step(1, tmp_path / "one" / "first")
    tracker.on_start(training)
    training.step = 2
    tracker.on_log(training, {"loss": 0.5})
    tracker.on_end(training)
    assert given["name"] == "first"
    assert given["resume"] == "allow"
    assert logged == [({"loss": 0.5}, 2), "closed"]
    identity = given["id"]
    TRACKERS["wandb"]().on_start(at_step(0, tmp_path / "two" / "first"))
    assert given["name"] == "first"
    assert given["id"] != identity, "a run of the same name in another comparison is another run"
    TRACKERS["wandb"]().on_start(at_step(4, tmp_path / "one" / "first"))
    assert given["id"] == identity


def test_trackers_get_the_values_of_the_metrics(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    purged: list[int] = []
    writer = SimpleNamespace(add_scalar=lambda *given: written.append(given), close=lambda: written.append(("closed",)))
    module = SimpleNamespace(SummaryWriter=lambda folder, purge_step: purged.append(purge_step) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    config = config_for("translation", stores, train={"steps": 4, "validate_every": 2, "track": ("tensorboard",)})
    interrupted(config, tmp_path / "run", after=3)
    Run(config, tmp_path / "run").train(quiet=True)
    assert purged == [1, 4]
    assert written.count(("closed",)) == 2
    for name in ("loss", "learning_rate", "valid_nll"):
        told = [(step, value) for called, value, step in (each for each in written if len(each) == 3) if called == name]
        assert told == lines(tmp_path / "run", name)
        assert told


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_says_what_to_install(name: Any, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[track\]'"):
        TRACKERS[name]()
