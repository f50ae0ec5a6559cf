"""Resuming a run: nothing is trained or logged twice, and the config of a failed start can be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import UserError
from lamina.config import to_toml
from lamina.model.options import ModelChoices
from lamina.model.presets import PRESETS
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run, read_config
from lamina.tasks.base import SampleOutput
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.config import RunConfig
from support.small_runs import assert_same, before_update, building, config_for, interrupted, lines, store_for, weights


def test_a_run_that_has_ended_is_left_as_it_is(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 2})
    first = Run(config, tmp_path / "run").train(quiet=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert Run(config, tmp_path / "run").train(quiet=True) == first
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == lines


class Killed(BaseException):
    """As if the process had ended here."""


def die(*given: Any, **options: Any) -> None:
    raise Killed


def test_killed_before_the_first_checkpoint_nothing_is_logged_twice(stores: Path, tmp_path: Path) -> None:
    changes = {"save_every": 5, "validate_every": 3}
    config = config_for("translation", stores, train=changes)
    Run(config, tmp_path / "whole").train(quiet=True)
    with RunFolder(tmp_path / "parts").claim() as folder:
        training = building(config, folder)
        training.save = lambda: None  # type: ignore[method-assign]
        before_update(training, lambda step: die() if step == 5 else None)
        with pytest.raises(Killed):
            training.run()
    assert len(lines(tmp_path / "parts", "loss")) == 4
    Run(config, tmp_path / "parts").train(quiet=True)
    for name in ("loss", "valid_nll"):
        assert lines(tmp_path / "parts", name) == lines(tmp_path / "whole", name)
    assert [step for step, _ in lines(tmp_path / "parts", "loss")] == [1, 2, 3, 4, 5, 6]
    told, expected = (list(RunFolder(tmp_path / name).samples.read()) for name in ("parts", "whole"))
    assert told == expected
    assert [step for step, _ in told] == [3, 6]


def test_samples_after_the_checkpoint_are_removed(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    with RunFolder(tmp_path / "run").claim() as folder:
        before = list(folder.samples.read())
        folder.samples.append(3, [SampleOutput("source", "reference", "output of a step that is not saved")])
        building(config, folder)
        assert list(folder.samples.read()) == before != []


@pytest.mark.parametrize("patience", [2, 0])
def test_killed_after_the_last_save_a_run_trains_no_step_more(
    patience: int, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is saved, but the status does not say yet that the run has ended."""
    changes = {"schedule": {"learning_rate": 1e-9}}
    changes["train"] = {"steps": 20 if patience else 4, "validate_every": 1, "patience": patience}
    config = config_for("classification", stores, **changes)
    Run(config, tmp_path / "whole").train(quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("lamina.training.loop.Training._finish", die)
        with pytest.raises(Killed):
            Run(config, tmp_path / "parts").train(quiet=True)
    status = Run(config, tmp_path / "parts").train(quiet=True)
    whole = RunFolder(tmp_path / "whole").status()
    assert whole is not None
    assert (status.state, status.step, status.reason) == (whole.state, whole.step, whole.reason)
    assert status.step < 20
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    for name in ("loss", "valid_nll"):
        assert lines(tmp_path / "parts", name) == lines(tmp_path / "whole", name)


@pytest.mark.parametrize(
    "mistake",
    [
        {"task_options": {"label_smoothin": 0.1}},
        {"model": {"num_heads": 3}},
        {"model": {"preset": "iwslt-wide"}},
    ],
)
def test_the_config_of_a_start_that_failed_may_be_replaced(
    mistake: dict[str, Any], stores: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError):
        Run(config_for("translation", stores, **mistake), tmp_path / "run").train(quiet=True)
    assert RunFolder(tmp_path / "run").status() is None
    status = Run(config_for("translation", stores, train={"steps": 2}), tmp_path / "run").train(quiet=True)
    assert status.step == 2


def test_the_config_of_a_run_without_checkpoint_or_result_may_be_replaced(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after running out of memory in the first step. After a result, the config may not be replaced."""
    with monkeypatch.context() as patch:
        patch.setattr("lamina.training.loop.Training.update", die)
        with pytest.raises(Killed):
            Run(config_for("translation", stores), tmp_path / "run").train(quiet=True)
    changed = config_for("translation", stores, data={"max_tokens": 100}, train={"steps": 2})
    assert Run(changed, tmp_path / "run").train(quiet=True).step == 2
    with RunFolder(tmp_path / "failed").claim() as folder:
        folder.store_config(to_toml(changed))
        folder.set_status("failed", 1, "the loss has been above its start")
    with pytest.raises(UserError, match=r"data.max_tokens: was 100, is 200"):
        Run(config_for("translation", stores), tmp_path / "failed").train(quiet=True)


def test_a_pair_given_in_python_is_the_pair_that_was_written(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, model={"num_layers": (2, 1)}, train={"steps": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    assert Run(config, tmp_path / "run").train(quiet=True).step == 2


def test_a_preset_is_written_out(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": (1, 1)}
    monkeypatch.setitem(PRESETS, "tiny", small | {"vocab_size": 10})
    base = config_for("translation", stores, train={"steps": 3})
    named = base.model_copy(update={"model": ModelChoices(preset="tiny", dropout=0.0)})
    spelt = base.model_copy(update={"model": ModelChoices(**small, dropout=0.0)})
    for name, config in (("named", named), ("spelt", spelt)):
        Run(config, tmp_path / name).train(quiet=True)
    assert_same(weights(tmp_path / "named"), weights(tmp_path / "spelt"))
    stored = read_config(tmp_path / "named")
    assert stored.model == ModelChoices(**small, dropout=0.0, shared_embeddings="all", num_segments=0)
    longer = config_for("translation", stores, train={"steps": 4})
    longer = longer.model_copy(update={"model": ModelChoices(preset="tiny", dropout=0.0)})
    assert Run(longer, tmp_path / "named").train(quiet=True).step == 4
    monkeypatch.setitem(PRESETS, "tiny", small | {"num_heads": 4})
    assert read_config(tmp_path / "named").model.num_heads == 2
    changed = longer.model_copy(update={"model": ModelChoices(preset="tiny", dropout=0.0)})
    with pytest.raises(UserError, match=r"model.num_heads: was 2, is 4"):
        Run(changed, tmp_path / "named").train(quiet=True)


def test_a_run_that_stored_the_name_of_its_preset_can_be_resumed(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1, "vocab_size": 10}
    monkeypatch.setitem(PRESETS, "tiny", small)
    base = config_for("translation", stores, train={"steps": 4})
    named: RunConfig = base.model_copy(update={"model": ModelChoices(preset="tiny")})
    interrupted(named, tmp_path / "run", after=2)
    (tmp_path / "run" / "config.toml").write_text(to_toml(named))
    RunFolder(tmp_path / "run").copy_data(store_for("translation", stores))
    assert Run(named, tmp_path / "run").train(quiet=True).step == 4
    assert read_config(tmp_path / "run").model.preset is None


def test_another_precision_by_force_starts_with_a_new_scale(stores: Path, tmp_path: Path) -> None:
    Run(config_for("translation", stores, train={"steps": 2}), tmp_path / "run").train(quiet=True)
    half = config_for("translation", stores, train={"steps": 4, "precision": "fp16"})
    assert Run(half, tmp_path / "run").train(quiet=True, force=True).step == 4
    counters = checkpoint.load(tmp_path / "run" / "checkpoints" / "latest").counters
    assert counters["scaler"]["scale"] == 2.0**16
    assert not torch.equal(*(weights(tmp_path / "run", f"step-0000000{at}")["tables.source.weight"] for at in (2, 4)))
