"""The end of a comparison: the page, the table and the sentences that matter, all from the run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lamina.report.comparison import RunStory, save_comparison
from lamina.report.page import form_of
from lamina.report.picture import PICTURES
from lamina.report.runs import show_comparison
from lamina.studies.findings import findings
from lamina.studies.stories import read_stories
from lamina.train.runs import summarise_run


def report_file(name: str | Path) -> Path:
    """Where a page goes; a form that cannot be written is known before anything is trained."""
    file = Path(name)
    form_of(file, PICTURES)
    return file


def summarise(runs: Sequence[str | Path], file: Path, title: str = "") -> tuple[Path, list[RunStory]]:
    """Write the page, or a picture, and say on the terminal what it says first."""
    stories = read_stories(runs)
    sentences = findings(stories)
    save_comparison(stories, file, sentences, title or "Residual schemes compared")
    show_comparison([summarise_run(run) for run in runs])
    console = Console(highlight=False, soft_wrap=True)
    for sentence in sentences:
        console.print(f"\n{sentence}")
    return file, stories
