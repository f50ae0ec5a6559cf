"""Classifiers that start from a checkpoint of a masked language model (Xiong et al. 2020, figure 5 b and c)."""

from __future__ import annotations

import shutil
from typing import Literal, get_args

from lamina.errors import UserError
from lamina.run_folder.checkpoints import LATEST
from lamina.runs.run import Run
from lamina.studies.shared_runs.data_sets import open_beside
from lamina.training.config import RunConfig

FineTuningTask = Literal["mrpc", "rte"]
TASKS: tuple[FineTuningTask, ...] = get_args(FineTuningTask)
STEPS, EXAMPLES, LEARNING_RATE = 50, 16, 1e-3


def fine_tune(run: Run, checkpoint: str, task: FineTuningTask, repeat: int) -> float | None:
    """The accuracy in per cent of a classifier that starts from a checkpoint of the run; None if it diverged.

    repeat: together with the seed of the run it is the seed of the classifier.
    """
    folder = run.path / "fine-tuning"
    values = {
        "task": "classification",
        "seed": 10 * run.config.seed + repeat,
        "start_from": str(run.path),
        "start_from_checkpoint": checkpoint,
        "data": {
            "store": str(open_beside(run.open_store(), task).folder),
            "batch_examples": EXAMPLES,
            "max_tokens": None,
        },
        "model": run.config.model.model_dump(mode="json"),
        "schedule": {"name": "linear", "learning_rate": LEARNING_RATE, "warmup_steps": 1},
        "train": {
            "steps": min(STEPS, run.config.train.steps or STEPS),
            "threads": 1,
            "save_every": 0,
            "samples": 0,
            "validate_every": 0,
        },
    }
    classifier = Run(RunConfig.read(values, where="fine-tuning"), folder)
    try:
        status = classifier.train(quiet=True)
        if not status.has_ended:
            raise UserError(f"fine-tuning was interrupted at step {status.step}; the same command starts it again")
        if not classifier.folder.list_checkpoints():
            return None
        return classifier.load(LATEST).evaluate("valid").scores["valid"]["accuracy"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
