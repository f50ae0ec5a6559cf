"""The public names: plain functions with real signatures, imported when they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.config import to_toml
from lamina.errors import UserError
from lamina.runs.run import Run
from support.small_runs import config_for, lines
from support.small_tasks import small_store

FUNCTIONS = ["compare", "diagnose", "load", "train", "watch"]


def test_every_public_name_is_there() -> None:
    for name in lamina.__all__:
        assert getattr(lamina, name) is not None


def test_a_function_is_the_same_on_every_access() -> None:
    """In a fresh process, before and after the packages are imported whose names are similar."""
    code = (
        f"import types, lamina\nnames = {FUNCTIONS}\nfirst = [getattr(lamina, name) for name in names]\n"
        "import lamina.diagnosis, lamina.training.loop, lamina.generate, lamina.report, lamina.studies.compare\n"
        "for name, function in zip(names, first):\n"
        "    assert function is getattr(lamina, name) is getattr(lamina.api, name), name\n"
        "    assert isinstance(function, types.FunctionType), name"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes(name: str) -> None:
    function = getattr(lamina, name)
    assert function.__doc__
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not parameter.empty
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = lamina.trian


def test_train_takes_a_file_with_overrides(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(to_toml(config_for("translation", stores)))
    run = lamina.train("own.toml", ["train.steps=2"], quiet=True)
    assert isinstance(run, Run)
    assert (run.path, run.summary().step) == (Path("runs/own"), 2)
    again = lamina.train("runs/own", ["train.steps=3"], quiet=True)
    assert (again.path, again.summary().step) == (Path("runs/own"), 3)
    elsewhere = lamina.train("own.toml", ["train.steps=1"], folder="elsewhere", quiet=True)
    assert (elsewhere.path, elsewhere.summary().step) == (Path("elsewhere"), 1)


def test_train_takes_a_config_or_its_values(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_for("translation", stores, train={"steps": 2})
    run = lamina.train(config, quiet=True)
    assert (run.path, run.summary().step) == (Path("runs/translation"), 2)
    values = lamina.train(config.model_dump(), folder="values", quiet=True)
    assert [loss for _, loss in lines(values.path, "loss")] == [loss for _, loss in lines(run.path, "loss")]
    with pytest.raises(UserError, match=r"train.steps=3: overrides are for configs in files"):
        lamina.train(config, ["train.steps=3"])
    with pytest.raises(UserError, match=r"config: train.stesp: unknown option 'stesp'; did you mean 'steps'"):
        lamina.train({"train": {"stesp": 3}})


def test_train_calls_callbacks(stores: Path, tmp_path: Path) -> None:
    class Losses(lamina.Callback):
        def __init__(self) -> None:
            self.found: list[tuple[int, float]] = []

        def on_step(self, training: Any, values: Mapping[str, Any]) -> None:
            self.found.append((training.step, values["loss"]))

    losses = Losses()
    lamina.train(config_for("translation", stores), folder=tmp_path / "run", quiet=True, callbacks=[losses])
    assert losses.found == lines(tmp_path / "run", "loss")
    assert len(losses.found) == 6


def test_compare_trains_and_reports(tmp_path: Path) -> None:
    """One real call, with a run of two steps under each scheme."""
    store = small_store("translation", tmp_path / "stores", 400, train=20, valid=4)
    sizes = {"model_dim": 8, "feed_forward_dim": 16, "num_heads": 2, "num_layers": 1}
    values = {
        "task": "translation",
        "data": {"store": str(store.folder), "max_tokens": 200, "oversize": "alone"},
        "model": sizes,
        "train": {"steps": 2, "samples": 0},
    }
    report = lamina.compare(values, ["post-ln", "b2t"], folder=tmp_path / "compared")
    assert [each.name for each in report.summaries] == ["post-ln-1-seed1", "b2t-1-seed1"]
    assert [each.step for each in report.summaries] == [2, 2]
    assert (tmp_path / "compared" / "report.html").exists()
