"""The report of several runs, which `lamina.compare` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from lamina.errors import UserError
from lamina.report.conclusions import draw_conclusions
from lamina.report.figures.curves import PICTURES
from lamina.report.pages.comparison import comparison_page, save_comparison
from lamina.report.pages.page import form_of
from lamina.report.run_results import RunResult, read_run_results
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.runs.summary import RunSummary


@dataclass(frozen=True)
class ComparisonReport:
    """The results of several runs of one task."""

    results: Sequence[RunResult]
    summaries: Sequence[RunSummary]
    left_out: Sequence[Path] = ()
    """The given paths that are not shown: files, and runs that were replaced by others that are shown."""
    missing: Sequence[Path] = ()
    """The diagnoses that were not made, so that their figures are not shown."""

    @classmethod
    def read(cls, paths: Sequence[str | Path]) -> Self:
        """Read the results of several run folders, such as all of `runs/own-compared/*`."""
        shown = choose_run_folders(paths)
        left_out = [Path(path) for path in paths if Path(path) not in shown]
        results, summaries = read_run_results(shown), [Run(path).summary() for path in shown]
        missing = [file for path in shown for file in RunFolder(path).missing_diagnoses()]
        return cls(results, summaries, left_out, missing)

    @cached_property
    def conclusions(self) -> list[str]:
        """A few sentences about which schemes train, and why."""
        return draw_conclusions(self.results)

    def save(self, file: str | Path, title: str = "") -> None:
        """Write the page: .html or .md; or its first loss curves alone: .svg, .pdf or .png."""
        save_comparison(self.results, Path(file), self.conclusions, title or self._heading)

    def page(self, title: str = "") -> str:
        """The text of the page, as HTML."""
        return comparison_page(self.results, "html", self.conclusions, title or self._heading)

    @property
    def _heading(self) -> str:
        return self.results[0].name if len(self.results) == 1 else "Residual schemes compared"


def check_report_file(file: str | Path) -> Path:
    """The file as a path; refused, before any training, if its ending is not that of a report."""
    form_of(Path(file), PICTURES)
    return Path(file)


def choose_run_folders(paths: Sequence[str | Path]) -> list[Path]:
    """The given paths without files, and without runs that were moved aside if their successor is given too."""
    resolved = [Path(path).resolve() for path in paths]
    repeated = [str(path) for path, place in zip(paths, resolved, strict=True) if resolved.count(place) > 1]
    if repeated:
        raise UserError(f"{' and '.join(dict.fromkeys(repeated))}: one run given twice would count as two seeds")
    pairs = zip(map(Path, paths), resolved, strict=True)
    return [path for path, place in pairs if not place.is_file() and RunFolder(place).successor not in resolved]
