"""Successive halving with made-up losses and times: who continues, the budget, and an interrupted search."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.errors import UserError
from lamina.model.options import pair
from lamina.studies.advice import halving
from lamina.studies.advice.outcome import Recommendation
from lamina.training.config import RunConfig
from support.made_trials import MadeTrials
from support.small_runs import config_for

GOOD = {"pre-ln": 2.0, "b2t": 1.0, "admin": 3.0, "resi-dual": 2.5, "post-ln": 4.0}


def loss_of(config: RunConfig, step: int) -> float | None:
    """B2T with the lowest learning rate is best, post-LN diverges."""
    scheme = pair(config.model.residual)[0]
    if scheme == "post-ln":
        return None
    return GOOD[scheme] + config.schedule.learning_rate + 10 / step + 1e-3 * config.seed


@pytest.fixture
def values(stores: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(halving, "examine_candidate", lambda config, folder: None)
    model = {"num_layers": 2, "residual": "pre-ln"}
    return config_for("classification", stores, model=model, train={"steps": 5000}).model_dump(exclude_unset=True)


def ask(values: dict[str, Any], folder: Path, engine: MadeTrials, budget: str = "10m") -> Recommendation:
    ticks = itertools.count()
    return lamina.advise(
        values,
        budget=budget,
        depths=[2, 3],
        learning_rates=[3e-3, 1e-3],
        folder=folder,
        engine=engine,
        clock=lambda: float(next(ticks)),
    )


def test_the_best_wins_within_the_budget(values: dict[str, Any], tmp_path: Path) -> None:
    engine = MadeTrials(loss_of)
    advice = ask(values, tmp_path, engine)
    assert advice.chosen.candidate.schemes == ("b2t",)
    assert advice.chosen.final.by_seed.keys() == {1, 2}
    assert 0.75 * 600 < advice.spent <= 1.05 * 600
    rungs = [name for name, step in engine.trained if step == advice.ladder.length]
    assert len(rungs) == 4, "two finalists with two seeds"
    failed = [each for each in advice.outcomes if each.failed]
    assert failed
    assert {each.candidate.schemes for each in failed} == {("post-ln",)}
    assert (tmp_path / "advised.toml").exists()


def test_each_rung_has_the_best_third_of_the_one_before(values: dict[str, Any], tmp_path: Path) -> None:
    advice = ask(values, tmp_path, MadeTrials(loss_of))
    first, second, last = advice.ladder.rungs
    reached = {step: [each for each in advice.outcomes if step in each.losses] for step in (first, second, last)}
    assert len(reached[first]) == advice.ladder.candidates
    assert len(reached[second]) == -(-len(reached[first]) // 3)
    worst = max(each.losses[first].mean for each in reached[second])
    given_up = [each for each in reached[first] if each not in reached[second] and not each.failed]
    assert all(each.losses[first].mean >= worst for each in given_up)


def test_an_interrupted_search_makes_the_same_decisions(values: dict[str, Any], tmp_path: Path) -> None:
    whole = ask(values, tmp_path / "whole", MadeTrials(loss_of))

    class Interrupted(MadeTrials):
        def submit(self, run: Path, *, diagnose: bool = True) -> Any:
            if len(self.trained) == 12:
                raise KeyboardInterrupt
            return super().submit(run, diagnose=diagnose)

    with pytest.raises(KeyboardInterrupt):
        ask(values, tmp_path / "parts", Interrupted(loss_of))
    rest = MadeTrials(loss_of)
    again = ask(values, tmp_path / "parts", rest)
    assert [each.losses for each in again.outcomes] == [each.losses for each in whole.outcomes]
    repeated = MadeTrials(loss_of)
    ask(values, tmp_path / "parts", repeated)
    assert repeated.trained == [], "nothing is trained again"


def test_where_time_runs_out_fewer_continue(values: dict[str, Any], tmp_path: Path) -> None:
    class Slowing(MadeTrials):
        def submit(self, run: Path, *, diagnose: bool = True) -> Any:
            self.per_step = 0.1 if run.name.startswith("probe") else 0.2
            return super().submit(run, diagnose=diagnose)

    planned, slow = (ask(values, tmp_path / kind.__name__, kind(loss_of)) for kind in (MadeTrials, Slowing))
    assert len(slow.finalists) == 1 < len(planned.finalists)
    assert slow.spent < 1.5 * 600


def test_diagnoses_rule_out_and_are_limited(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def examine(config: RunConfig, folder: Path) -> Any:
        asked.append(pair(config.model.residual)[0])
        return asked[-1]

    monkeypatch.setattr(halving, "examine_candidate", examine)
    monkeypatch.setattr(halving, "reason_to_rule_out", lambda found, config: "it fails" if found == "b2t" else None)
    advice = ask(values, tmp_path, MadeTrials(loss_of))
    assert advice.chosen.candidate.schemes == ("pre-ln",)
    ruled_out = [each for each in advice.outcomes if each.ruled_out]
    assert {each.candidate.schemes for each in ruled_out} == {("b2t",)}
    assert not any(each.losses for each in ruled_out)
    assert len(asked) == 5 * 2, "once for each scheme and depth, not for each learning rate"


def test_a_folder_with_another_question_is_refused(values: dict[str, Any], tmp_path: Path) -> None:
    ask(values, tmp_path, MadeTrials(loss_of))
    with pytest.raises(UserError, match=r"another question \(budget\); give another --folder"):
        ask(values, tmp_path, MadeTrials(loss_of), budget="20m")


def test_where_everything_fails_that_is_said(values: dict[str, Any], tmp_path: Path) -> None:
    def fail(config: RunConfig, step: int) -> float | None:
        return 1.0 if step == halving.PROBE_STEPS else None

    with pytest.raises(UserError, match=r"every candidate failed\. The first: the loss is not finite"):
        ask(values, tmp_path, MadeTrials(fail))


def test_a_budget_that_is_too_small_is_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Give a budget that is .* longer"):
        ask(values, tmp_path, MadeTrials(loss_of), budget="10s")
