"""Checkpoints on disk: complete or absent, the last ones and the best kept, and links up to date."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.errors import UserError
from lamina.files.hashes import ManifestFormat
from lamina.run_folder.seal import DamagedCheckpoint
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.checkpoint.storage import (
    BEST,
    LATEST,
    find_latest,
    list_checkpoints,
    load,
    load_model,
    point,
    save,
)
from lamina.training.optimisers import OptimiserOptions, build_optimiser, set_learning_rate
from support.small_models import LABELS, SOURCE, TARGET, small_model

OPTIMISERS: list[dict[str, Any]] = [
    {"name": "adam"},
    {"name": "adamw", "weight_decay": 0.1},
    {"name": "radam", "weight_decay": 0.01},
    {"name": "sgd"},
    {"name": "sgd", "momentum": 0.9},
]


def built(optimiser: dict[str, Any], residual: str = "admin") -> tuple[Any, torch.optim.Optimizer]:
    """A model with dropout, so that the random state matters, and its optimiser."""
    model = small_model(residual, dropout=0.2)
    return model, build_optimiser(OptimiserOptions(**optimiser), model)


def train(model: Any, optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        set_learning_rate(optimiser, 1e-2 / step)
        optimiser.zero_grad()
        scores = model(SOURCE, TARGET)
        F.cross_entropy(scores.flatten(0, 1), LABELS.flatten()).backward()
        optimiser.step()


def snapshot(step: int = 1, **model: Tensor) -> Snapshot:
    """A small one, without a model or an optimiser."""
    random = {"cpu": torch.get_rng_state()}
    return Snapshot(
        model or {"w": torch.full((3,), float(step))}, {}, {"class": "SGD", "state": {}}, random, {"step": step}
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda values: "-".join(map(str, values.values())))
def test_loading_then_saving_gives_the_same_bytes(tmp_path: Path, optimiser: dict[str, Any]) -> None:
    model, rule = built(optimiser)
    train(model, rule, range(1, 4))
    counters = {"step": 3, "epoch": 1, "best": 0.1 + 0.2, "seeds": [2**63, 7], "scale": {"value": 65536.0, "age": None}}
    path = save(tmp_path / "a", Snapshot.take(model, rule, counters))
    assert load(path).counters == counters
    assert contents(save(tmp_path / "b", load(path))) == contents(path)
    model, rule = built(optimiser)
    load(path).restore(model, rule)
    assert contents(save(tmp_path / "c", Snapshot.take(model, rule, counters))) == contents(path)


def test_restored_weights_do_not_depend_on_the_file(tmp_path: Path) -> None:
    """Restored tensors do not refer to the file: training may remove it, and must not write into it."""
    model, rule = built({"name": "adam"})
    train(model, rule, range(1, 3))
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 2}))
    before = contents(path)
    taken = load(path)
    taken.restore(model, rule)
    train(model, rule, range(3, 5))
    assert contents(path) == before
    for mine, stored in ((taken.model, load(path).model), (taken.optimiser, load(path).optimiser)):
        assert all(torch.equal(mine[name], value) for name, value in stored.items())


def test_tensors_that_share_memory(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    shared = {
        "whole": base,
        "again": base,
        "row": base[1],
        "turned": base.T,
        "empty": torch.zeros(0),
        "none": torch.zeros(0),
    }
    path = save(tmp_path, snapshot(**shared, scalar=torch.tensor(2.5), flag=torch.tensor([True])))
    for name, value in {**shared, "scalar": torch.tensor(2.5), "flag": torch.tensor([True])}.items():
        assert torch.equal(load(path).model[name], value)


def test_counters_must_be_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(tmp_path, Snapshot({}, {}, {}, {}, {"step": 1, "best": float("inf")}))
    assert list(tmp_path.iterdir()) == []


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    path = save(tmp_path, snapshot())
    umask = os.umask(0)
    os.umask(umask)
    assert {each.stat().st_mode & 0o777 for each in path.iterdir()} == {0o666 & ~umask}


def test_every_byte_is_on_disk_before_the_checkpoint_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def watched_rename(old: Any, new: Any) -> None:
        rename(old, new)
        events.append("renamed")

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    path = save(tmp_path, snapshot(1))
    named = events.index("renamed")
    assert sorted(events[: named - 1]) == sorted(contents(path))
    assert events[named - 1] == f".{path.name}.partial"
    assert events[named + 1] == tmp_path.name
    assert events[-1] == tmp_path.name  # the links


def test_another_version_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.run_folder.seal.FORMAT", ManifestFormat("lamina-checkpoint", 2))
    path = save(tmp_path, snapshot())
    monkeypatch.undo()
    with pytest.raises(UserError, match="another version of Lamina.*lamina-checkpoint 2") as caught:
        load(path)
    assert not isinstance(caught.value, DamagedCheckpoint)


def steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in list_checkpoints(folder)]


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in range(1, 8):
        save(tmp_path, snapshot(step), best_step=min(step, 3), keep=2)
        assert steps(tmp_path) == sorted({min(step, 3), max(1, step - 1), step})
        assert (tmp_path / LATEST).readlink() == Path(f"step-{step:08d}")
        assert (tmp_path / BEST).resolve() == tmp_path / f"step-{min(step, 3):08d}"
    assert load(tmp_path / BEST).step == 3
    assert load_model(tmp_path / LATEST)["w"].tolist() == [7.0] * 3
    save(tmp_path, snapshot(8), best_step=8, keep=2)
    assert steps(tmp_path) == [7, 8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "latest", "step-00000007", "step-00000008"]


def test_no_best_no_link(tmp_path: Path) -> None:
    save(tmp_path, snapshot(1), best_step=1)
    save(tmp_path, snapshot(2))
    assert not (tmp_path / BEST).is_symlink()


def test_links_are_set_right_on_resuming(tmp_path: Path) -> None:
    """Killed after the checkpoint took its name and before the links were set."""
    save(tmp_path, snapshot(1), best_step=1)
    save(tmp_path, snapshot(2), best_step=2)
    point(tmp_path, latest_step=1, best_step=1)
    resumed = find_latest(tmp_path)
    assert resumed is not None
    point(tmp_path, latest_step=load(resumed).step, best_step=2)
    assert (tmp_path / LATEST).readlink() == (tmp_path / BEST).readlink() == Path("step-00000002")


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, snapshot(5, w=torch.zeros(1)))
    save(tmp_path, snapshot(5, w=torch.ones(1)))
    assert load_model(tmp_path / LATEST)["w"].item() == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-00000005"]


def test_a_run_resumed_earlier_deletes_later_checkpoints(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, snapshot(step), keep=3)
    save(tmp_path, snapshot(15), keep=3)
    assert steps(tmp_path) == [10, 15]
    resumed = find_latest(tmp_path)
    assert resumed is not None
    assert load(resumed).step == 15


def test_nothing_saved_is_nothing_to_resume(tmp_path: Path) -> None:
    assert find_latest(tmp_path) is None
    assert find_latest(tmp_path / "missing") is None


def test_more_steps_than_eight_digits(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000):
        save(tmp_path, snapshot(step))
    assert steps(tmp_path) == [99_999_999, 100_000_000]
