"""The runner of trials: what is trained again, what counts, and errors."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.progress import no_progress
from lamina.run_folder.folder import RunFolder
from lamina.studies.advice.ladder import TrialCost
from lamina.studies.advice.trial_runner import TrialRunner
from lamina.studies.engines import Engine
from lamina.training.config import RunConfig
from support.made_trials import MadeTrials
from support.small_runs import config_for


@pytest.fixture
def config(stores: Path) -> RunConfig:
    return config_for("classification", stores)


def runner_of(engine: Engine, config: RunConfig, folder: Path) -> TrialRunner:
    return TrialRunner(folder, engine, Store.open(config.data.store or ""), no_progress)


def test_a_trial_is_trained_once_to_each_step_and_its_time_is_counted(config: RunConfig, tmp_path: Path) -> None:
    engine = MadeTrials(lambda config, step: 1 / step, per_step=0.5, per_start=2.0)
    runner = runner_of(engine, config, tmp_path)
    for until in (4, 4, 10):
        runner.train({"a": config, "b": config}, until, "stage")
    assert engine.trained == [("a", 4), ("b", 4), ("a", 10), ("b", 10)]
    assert (runner.loss("a", 4), runner.loss("a", 10), runner.loss("a", 5)) == (0.25, 0.1, None)
    assert runner.seconds() == 2 * (2 * 2.0 + 10 * 0.5)
    assert runner.total("a") == runner.seconds() / 2
    assert runner.cost("a", 10) == TrialCost(0.5, 4.0)


def test_one_that_diverged_is_not_trained_again(config: RunConfig, tmp_path: Path) -> None:
    engine = MadeTrials(lambda config, step: None)
    runner = runner_of(engine, config, tmp_path)
    runner.train({"a": config}, 4, "stage")
    runner.train({"a": config}, 10, "stage")
    assert engine.trained == [("a", 4)]
    assert runner.failure("a") == "the loss is not finite"
    assert runner.loss("a", 4) is None


@pytest.mark.parametrize(("code", "said"), [(2, "a ended with an error: lamina: disk full"), (75, "was interrupted")])
def test_errors_and_interruptions_are_said(config: RunConfig, tmp_path: Path, code: int, said: str) -> None:
    class Ending:
        def submit(self, run: Path, *, diagnose: bool = True) -> Future[int]:
            RunFolder(run).log.write_text("lamina: disk full\n")
            done: Future[int] = Future()
            done.set_result(code)
            return done

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...

    with pytest.raises(UserError, match=said):
        runner_of(Ending(), config, tmp_path).train({"a": config}, 4, "stage")
