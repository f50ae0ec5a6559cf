"""The examination: one diagnosis is judged at every learning rate, and rules out what is expected to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.advice import examination
from lamina.studies.advice.examination import examine_candidate, reason_to_rule_out
from lamina.training.config import RunConfig
from support.small_runs import config_for


def with_rate(config: RunConfig, rate: float) -> RunConfig:
    return config.model_copy(update={"schedule": config.schedule.model_copy(update={"learning_rate": rate})})


def test_post_ln_is_ruled_out_at_a_high_learning_rate_only(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, model={"num_layers": 6, "model_dim": 32})
    diagnosis = examine_candidate(config, tmp_path / "run")
    assert diagnosis is not None
    reason = reason_to_rule_out(diagnosis, with_rate(config, 0.05))
    assert reason is not None
    assert "highest learning rate of 0.05" in reason
    assert reason_to_rule_out(diagnosis, with_rate(config, 1e-5)) is None
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_diagnosed_is_left_to_training(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise UserError("no gradient")

    monkeypatch.setattr(examination, "diagnose_config", refuse)
    config = config_for("translation", stores)
    assert examine_candidate(config, tmp_path) is None
    assert reason_to_rule_out(None, config) is None
