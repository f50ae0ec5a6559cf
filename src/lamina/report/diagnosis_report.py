"""A diagnosis with its page: what `lamina.diagnose` and `lamina.watch` return."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lamina.diagnosis.results import Diagnosis, Measure, Verdict
from lamina.diagnosis.watching.watch import Watch
from lamina.report.pages.diagnosis import page, save


@dataclass(frozen=True)
class DiagnosisReport:
    """A diagnosis that can be shown. `print(report)` prints its Markdown."""

    diagnosis: Diagnosis

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.diagnosis.verdicts

    def __getitem__(self, key: str) -> Measure:
        """A measure by its key: `report["gradient-by-layer"]`."""
        return self.diagnosis[key]

    def save(self, file: str | Path) -> None:
        """Write the page: .html, .md, or .json for the numbers."""
        save([self.diagnosis], Path(file))

    def __str__(self) -> str:
        return page([self.diagnosis], "md")


class ReportingWatch(Watch):
    """A watch that can report what it has seen."""

    def report(self, name: str = "") -> DiagnosisReport:
        """The steps watched so far, with verdicts."""
        return DiagnosisReport(self.diagnosis(name))
