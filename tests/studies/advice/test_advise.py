"""The whole advice: a real one of small models, its command, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

import lamina
from lamina.config import read_values
from lamina.errors import UserError
from lamina.studies.advice.advise import CONFIG, read_budget
from lamina.training.config import RunConfig
from support.commands import invoke
from support.small_runs import config_for


@pytest.mark.slow
def test_a_real_advice_of_small_models(stores: Path, tmp_path: Path) -> None:
    """The planned run is short, so the advice trains all of it and leaves most of its budget."""
    config = config_for("classification", stores, train={"steps": 18}, model={"residual": "pre-ln"})
    asked = {"budget": "5m", "schemes": ["pre-ln", "b2t"], "depths": [2], "learning_rates": [1e-3, 1e-2]}
    advice = lamina.advise(config.model_dump(exclude_unset=True), folder=tmp_path, **asked)  # type: ignore[arg-type]
    assert advice.ladder.rungs == (2, 6, 18)
    assert 0 < advice.spent < 300
    assert sum(bool(each.losses) for each in advice.outcomes) == 4
    assert len(advice.finalists) == 2
    chosen = RunConfig.read(read_values(tmp_path / CONFIG), where="")
    assert chosen.model.residual == advice.chosen.candidate.schemes[0]
    assert chosen.train.steps == 18
    assert (tmp_path / "advice.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("45", 45), (45.5, 45.5)])
def test_budgets(text: str | float, seconds: float) -> None:
    assert read_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0m", "-3m", "3 days"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a time; write --budget 30m"):
        read_budget(text)


def test_mistakes_are_found_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text("seed = 1\n")
    for arguments, said in (
        (("--budget", "soon"), "is not a time"),
        (("--output", "advice.pdf"), "ends in one of"),
        (("--rates", "fast"), "not a list of learning rates"),
        (("--engine", "cloud"), "engine"),
    ):
        ended = invoke("advise", "own.toml", *arguments)
        assert isinstance(ended.exception, UserError)
        assert said in str(ended.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["own.toml"]
