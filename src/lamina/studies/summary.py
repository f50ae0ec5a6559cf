"""What a person gets in the end: the page, and what it says first on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lamina.errors import UserError
from lamina.report.conclusions import draw_conclusions
from lamina.report.figures.curves import PICTURES
from lamina.report.pages.comparison import save_comparison
from lamina.report.pages.page import form_of
from lamina.report.run_results import RunResult, read_run_results
from lamina.report.terminal.runs import show_comparison
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.studies.cells import Cell
from lamina.studies.compare import BrokenOff, compare


def report_file(name: str | Path) -> Path:
    """Where a page goes; a form that cannot be written is known before anything is trained."""
    file = Path(name)
    form_of(file, PICTURES)
    return file


def compare_and_summarise(cells: Sequence[Cell], folder: Path, file: Path, title: str = "") -> list[RunResult]:
    """Train what is not trained yet, and report it; if runs break off, the others all the same."""
    try:
        return summarise(list(compare(cells, folder).values()), file, title)
    except BrokenOff as broken:
        if not broken.others:
            raise
        summarise(broken.others, file, title)
        raise UserError(f"{broken}\nThe report of the other runs: {file}") from broken


def summarise(runs: Sequence[str | Path], file: Path, title: str = "") -> list[RunResult]:
    """Write the page, or a picture, and say on the terminal what it says first."""
    paths = run_folders(runs)
    results = read_run_results(paths)
    conclusions = draw_conclusions(results)
    save_comparison(results, file, conclusions, title or "Residual schemes compared")
    show_comparison([Run(path).summary() for path in paths])
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for sentence in conclusions:
        console.print(f"\n{sentence}")
    if left := [str(run) for run in runs if Path(run) not in paths]:
        console.print(f"\nLeft out, as files or as runs that were replaced: {', '.join(left)}")
    return results


def run_folders(given: Sequence[str | Path]) -> list[Path]:
    """What of `runs/own-compared/*` tells of now: no files, and no run moved aside where its successor is given too."""
    places = [Path(each).resolve() for each in given]
    twice = [str(each) for each, place in zip(given, places, strict=True) if places.count(place) > 1]
    if twice:
        raise UserError(f"{' and '.join(dict.fromkeys(twice))}: one run given twice would count as two seeds")
    pairs = zip(map(Path, given), places, strict=True)
    return [path for path, place in pairs if not place.is_file() and not _is_replaced(place, places)]


def _is_replaced(place: Path, places: Sequence[Path]) -> bool:
    return RunFolder(place).successor in places
