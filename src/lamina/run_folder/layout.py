"""The paths of all files of a run folder."""

from __future__ import annotations

from pathlib import Path

from lamina.errors import UserError
from lamina.files.json_lines import JsonLines
from lamina.run_folder.checkpoints import AVERAGE, BEST, LATEST, list_checkpoints, name_step
from lamina.run_folder.records import (
    Cost,
    DiagnosisFingerprint,
    Failure,
    Fingerprint,
    ObservationsFile,
    RecordFile,
    StudyOrder,
    TrialRecord,
)
from lamina.run_folder.samples import SamplesFile


class RunFiles:
    """The files of a run; the module `folder` says what they hold."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.samples = SamplesFile(self.path / "samples.jsonl")
        self.metrics = JsonLines(self.path / "metrics.jsonl")
        self.started_from = self.path / "started_from.json"
        self.checkpoints = self.path / "checkpoints"
        self.latest, self.best = self.checkpoints / LATEST, self.checkpoints / BEST
        self.average = self.path / AVERAGE
        self.diagnosis = self.path / "diagnosis"
        self.start_diagnosis = self.diagnosis / "start.json"
        self.training_diagnosis = self.diagnosis / "training.json"
        self.observations = ObservationsFile(self.diagnosis / "observations.json")
        self.failure = RecordFile(self.diagnosis / "failure.json", Failure)
        self.tensorboard = self.path / "tensorboard"
        self.wandb_id = self.path / "wandb-id.txt"
        self.fingerprint = RecordFile(self.path / "fingerprint.json", Fingerprint)
        self.diagnosed = RecordFile(self.path / "diagnosed.json", DiagnosisFingerprint)
        self.cost = RecordFile(self.path / "cost.json", Cost)
        self.study_order = RecordFile(self.path / "study.json", StudyOrder)
        self.study_numbers = self.path / "numbers.json"
        self.trial = RecordFile(self.path / "trial.json", TrialRecord)
        self.log = self.path / "log.txt"
        self.status_file = self.path / "status.json"

    def require_config(self) -> Path:
        """The file of the config, which every run has."""
        if not self.config.is_file():
            raise UserError(f"{self.path}: not a run folder (no {self.config.name}); train one with lamina train")
        return self.config

    def checkpoint(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.checkpoints / name_step(step)

    def list_checkpoints(self) -> list[Path]:
        """All finished checkpoints, oldest first."""
        return list_checkpoints(self.checkpoints)

    def step_diagnosis(self, step: int) -> Path:
        """The file of the diagnosis of a checkpoint."""
        return self.diagnosis / f"{name_step(step)}.json"

    def last_step_diagnosis(self) -> Path | None:
        """The file of the diagnosis of the latest checkpoint that has one."""
        return max(self.diagnosis.glob("step-*.json"), default=None)

    def watch_report(self, form: str) -> Path:
        """The file of the watch's report, in a form such as `html`."""
        return self.diagnosis / f"watch.{form}"
