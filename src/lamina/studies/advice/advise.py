"""Advice on the scheme, depth and learning rate of a config, within a budget of time.

    runs/<name>-advice/
      advice.json          what was asked, which candidates were ruled out, and which are trained for how long
      b2t-6-0.0015-seed1/  a run folder for every trial
      advice.html          the page
      advised.toml         the config to use

The same command continues an advice that was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.config import read_values
from lamina.errors import UserError
from lamina.files.lock import Lock
from lamina.files.progress import Progress, no_progress
from lamina.report.pages.page import form_of
from lamina.runs.run import Run
from lamina.studies.advice.candidates import list_candidates
from lamina.studies.advice.halving import Halving, Question
from lamina.studies.advice.outcome import Recommendation
from lamina.studies.advice.page import save_advice, write_config
from lamina.studies.advice.trial_runner import TrialRunner
from lamina.studies.advice.trials import Clock, clock_of, trains_on_gpu
from lamina.studies.cells import Depth
from lamina.studies.engines import Engine
from lamina.studies.engines.local import LocalEngine
from lamina.studies.engines.pool import PoolEngine
from lamina.training.config import RunConfig

UNITS = {"s": 1, "m": 60, "h": 3600}
CONFIG = "advised.toml"


def advise(
    config: Mapping[str, Any] | str | Path,
    *,
    budget: str | float = "30m",
    schemes: Sequence[str] = (),
    depths: Sequence[Depth | str] = (),
    learning_rates: Sequence[float] = (),
    seeds: int = 2,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    report: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress = no_progress,
    clock: Clock | None = None,
) -> Recommendation:
    """Find the residual scheme, depth and learning rate that suit a model and its data, in a limited time.

    config: a TOML file, or its values as a dictionary.
    budget: `"30m"`, `"2h"`, or seconds: the time of all runs and diagnoses together, of the processor, or by the clock
        where a GPU trains. With several cores the wait is shorter.
    schemes: by default that of the config, and pre-LN, B2T, Admin, ResiDual and post-LN.
    depths: by default that of the config, half of it and twice it. The width is chosen so that all models have about as
        many parameters as that of the config.
    learning_rates: by default a third of that of the config, the same, three and ten times as much.
    seeds: the number of seeds of the last two candidates, counted from the config's seed.
    overrides: settings that replace those of a file, as `key=value`.
    folder: the folder of the runs; by default `runs/`, the name of the file or task, and `-advice`.
    report: the file of the page, .html or .md; by default `advice.html` in that folder.
    engine: the engine that trains the runs; by default processes of this machine.
    clock: measures the time of diagnoses.

    An advice that was interrupted is continued by the same call. The config to use is `advised.toml` in the folder.
    """
    in_file = isinstance(config, str | Path)
    values = read_values(config, overrides, RunConfig) if isinstance(config, str | Path) else dict(config)
    checked = RunConfig.read(values, where=str(config) if in_file else "config")
    name = Path(config).stem if isinstance(config, str | Path) else checked.task
    place = Path("runs", f"{name}-advice") if folder is None else Path(folder)
    page = place / "advice.html" if report is None else Path(report)
    form_of(page)  # before the work, not after it
    seconds = read_budget(budget)
    place.mkdir(parents=True, exist_ok=True)
    lock = Lock(place / "advice.owner")
    lock.acquire()
    try:
        store = Run(checked, place / "any").open_store(progress)
        candidates = list_candidates(checked, store, schemes, depths, learning_rates)
        question = Question(values, str(config) if in_file else "config", checked, candidates, seconds, seeds)
        runner = TrialRunner(place, engine or _own_engine(checked, len(candidates), place), store, progress)
        try:
            advice = Halving(question, runner, clock or clock_of(checked)).run()
        finally:
            runner.engine.shutdown(cancel_futures=True)
    finally:
        lock.release()
    save_advice(advice, page)
    write_config(advice, values, place / CONFIG)
    return advice


def read_budget(given: str | float) -> float:
    """`30m`, `2h`, `90s`, or a number of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(given).strip())
    if not found or not float(found[1]):
        raise UserError(f"{given!r} is not a time; write --budget 30m, or 2h, or 90s")
    return float(found[1]) * UNITS[found[2] or "s"]


def _own_engine(config: RunConfig, count: int, folder: Path) -> PoolEngine:
    """As many processes as cores and memory allow; on a GPU one."""
    if trains_on_gpu(config):
        return PoolEngine(1)
    planned = LocalEngine.for_runs(count, Run(config, folder / "any"))
    return PoolEngine(planned.workers, planned.threads)
