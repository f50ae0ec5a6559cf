"""The report of a diagnosis, which `lamina.diagnose` and the `report` method of a watch return."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.results import Diagnosis, Finding
from lamina.diagnosis.watching.watch import Watch
from lamina.report.headline import changes
from lamina.report.pages.diagnosis import diagnosis_page, save_diagnoses


@dataclass(frozen=True)
class DiagnosisReport:
    """A diagnosis that can be printed and saved. `print(report)` prints its Markdown."""

    diagnosis: Diagnosis

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all checks, the worst first."""
        return self.diagnosis.findings

    def __getitem__(self, key: str) -> Measurement:
        """A measurement by its key: `report["gradient-by-layer"]`."""
        return self.diagnosis[key]

    def save(self, file: str | Path) -> None:
        """Write the page as .html or .md, or the numbers as .json."""
        save_diagnoses([self.diagnosis], Path(file))

    def compare(self, other: DiagnosisReport) -> DiagnosisComparison:
        """Before and after: this report beside that of the same model with a fix."""
        return DiagnosisComparison(self.diagnosis, other.diagnosis)

    def __str__(self) -> str:
        return diagnosis_page([self.diagnosis], "md")


@dataclass(frozen=True)
class DiagnosisComparison:
    """Two diagnoses side by side, with what changed. `print(comparison)` prints the Markdown."""

    before: Diagnosis
    after: Diagnosis

    @property
    def changes(self) -> list[tuple[str, str, str, str]]:
        """For every check: its worst severity before and after, and what that means, such as `resolved`."""
        return changes(self.before, self.after)

    def save(self, file: str | Path) -> None:
        """Write the page as .html or .md, or the numbers as .json."""
        save_diagnoses([self.before, self.after], Path(file))

    def __str__(self) -> str:
        return diagnosis_page([self.before, self.after], "md")


class ReportingWatch(Watch):
    """A watch that can report what it has observed."""

    def report(self, name: str = "") -> DiagnosisReport:
        """The report of the steps watched so far, with findings."""
        return DiagnosisReport(self.diagnosis(name))
