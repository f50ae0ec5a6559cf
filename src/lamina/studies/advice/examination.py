"""The examination of candidates at initialisation: those that are expected to fail are ruled out before training."""

from __future__ import annotations

from pathlib import Path

from lamina.diagnosis.checks import expects_failure, run_checks
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.runs.diagnose import Extent, diagnose_config
from lamina.runs.run import Run
from lamina.training.config import RunConfig

EXTENT = Extent(seeds=1, batches=2, depths=False)


def examine_candidate(config: RunConfig, folder: Path) -> Diagnosis | None:
    """The diagnosis of a candidate's model; None if it cannot be measured, which training will show."""
    try:
        return diagnose_config(Run(config, folder), EXTENT)
    except UserError:
        return None


def reason_to_rule_out(diagnosis: Diagnosis | None, config: RunConfig) -> str | None:
    """Why a model is expected to fail at the config's learning rate and warm-up; None if it is not.

    The measurements do not depend on the learning rate, only what they mean, so one diagnosis serves for all.
    """
    if diagnosis is None:
        return None
    findings = run_checks(
        diagnosis.measurements,
        diagnosis.not_measured,
        schemes=diagnosis.schemes,
        thresholds=config.diagnose.thresholds,
        learning_rate=config.schedule.learning_rate if config.optimiser.choose().is_adaptive else None,
        warmup=config.schedule.warmup,
    )
    expected = [each for each in findings if expects_failure([each])]
    return expected[0].sentence if expected else None
