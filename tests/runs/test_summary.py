"""The summary of a run, and the result of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina import UserError
from lamina.runs.run import Run, read_config
from support.small_runs import config_for


def test_evaluate_average_and_summary_of_a_run(stores: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 1e-2}}
    changes["train"] = {"steps": 60, "save_every": 20, "validate_every": 30}
    changes |= {"model": {"residual": "pre-ln", "model_dim": 32}, "data": {"max_tokens": 600}}
    config = config_for("language-modelling", stores, **changes)
    status = Run(config, tmp_path / "run").train(quiet=True)
    assert status.state == "finished", status.reason
    summary = Run(tmp_path / "run").summary()
    scores = Run(tmp_path / "run").evaluate()
    assert scores.scores["valid"]["nll"] == pytest.approx(summary.best_nll, rel=1e-5)
    assert summary.final["perplexity"] > 1
    assert [each.name for each in Run(tmp_path / "run").average(2)] == ["step-00000040", "step-00000060"]
    assert Run(tmp_path / "run").load("average").evaluate().scores["valid"]["nll"] > 0
    assert read_config(tmp_path / "run") == config.resolved(Run(config, tmp_path / "run").open_store())
    with pytest.raises(UserError, match="9 checkpoints asked for, but 3 kept"):
        Run(tmp_path / "run").average(9)
    with pytest.raises(UserError, match="no checkpoint 'step-9'; there are: step-00000030"):
        Run(tmp_path / "run").load("step-9").evaluate()
    with pytest.raises(UserError, match="no split 'tset'"):
        Run(tmp_path / "run").evaluate(split="tset")
    with pytest.raises(UserError, match="not a run folder"):
        Run(tmp_path).evaluate()


def test_a_multilingual_run_is_evaluated_over_all_pairs_together(stores: Path, tmp_path: Path) -> None:
    Run(config_for("multilingual-translation", stores, train={"steps": 2}), tmp_path / "run").train(quiet=True)
    found = Run(tmp_path / "run").evaluate()
    assert list(found.scores) == ["valid"]
    assert {"EX", "XE", "bleu", "bleu marn-selu"} <= set(found.scores["valid"])
    assert "tok:13a" in found.signatures["bleu"]
