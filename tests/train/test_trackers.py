from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamina import UserError
from lamina.train.trackers import open_trackers


def test_tensorboard_gets_the_numbers_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    writer = SimpleNamespace(add_scalar=lambda *given: written.append(given), close=lambda: written.append(("closed",)))
    folders = []
    module = SimpleNamespace(SummaryWriter=lambda folder: folders.append(folder) or writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    (tracker,) = open_trackers(["tensorboard"], tmp_path)
    tracker.append(3, {"loss": 1.5, "epoch": 0, "note": "no number"})
    tracker.close()
    assert folders == [str(tmp_path / "tensorboard")]
    assert written == [("loss", 1.5, 3), ("epoch", 0.0, 3), ("closed",)]


def test_weights_and_biases_resumes_a_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step: logged.append((values, step)), finish=lambda: logged.append("closed")
    )
    given: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **options: given.update(options) or run))
    (tracker,) = open_trackers(["wandb"], tmp_path / "first")
    tracker.append(2, {"loss": 0.5})
    tracker.close()
    assert given["id"] == given["name"] == "first"
    assert given["resume"] == "allow"
    assert logged == [({"loss": 0.5}, 2), "closed"]


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_says_what_to_install(
    name: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[track\]'"):
        open_trackers([name], tmp_path)
