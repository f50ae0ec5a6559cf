"""Studies in the terminal: the list of all, the verdicts of one, and the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from lamina.errors import UserError
from lamina.formatting import duration
from lamina.studies.ledger import StudyResult, read_ledger
from lamina.studies.pages.ledger_page import count_outcomes, describe_counts, ledger_entries
from lamina.studies.pages.study_page import SIGNS, count_verdicts, made_by
from lamina.studies.papers import STUDIES
from lamina.terminal import open_console, say


def show_studies(folder: Path) -> None:
    """All studies, with the verdicts of those that have a result in the folder."""
    done = {each.study: each for each in read_ledger(folder)} if folder.is_dir() else {}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("study", "shows", "claims", "runs", "result"):
        table.add_column(heading)
    for name, study in STUDIES.members.items():
        result = done.get(name)
        counts = "not run" if result is None else count_verdicts(result.judge())
        stale = " (stale)" if result is not None and result.is_stale else ""
        runs = sum(len(each.seeds) for each in study().runs("tiny"))
        table.add_row(name, escape(study.title), str(len(study.claims)), str(runs or "–"), f"{counts}{stale}")
    open_console().print(table)


def show_result(result: StudyResult, file: Path, page: Path) -> None:
    """The verdict on every claim, and where the numbers and the page are."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("claim", "", "verdict", "paper", "measured"):
        table.add_column(heading)
    judged = result.judge()
    for each in judged:
        outcome = f"{SIGNS[each.verdict.outcome]} {each.verdict.outcome}"
        measured = each.verdict.measured + (f" ({each.verdict.reason})" if each.verdict.reason else "")
        table.add_row(*map(escape, (each.claim.id, each.claim.statement, outcome, each.claim.paper, measured)))
    open_console().print(table)
    say(f"\n{count_verdicts(judged)}. {made_by(result)}.")
    say(f"The numbers: {file}\nThe page: {page}")


def show_all(ended: Iterable[tuple[str, StudyResult | UserError]]) -> None:
    """Each study as it ends; raises if one ended with an error, after all others."""
    problems = []
    for name, result in ended:
        if isinstance(result, UserError):
            problems.append(name)
            say(f"{name}: {result}", error=True)
        else:
            say(f"{name}: {count_verdicts(result.judge())} ({duration(result.seconds)})")
    if problems:
        raise UserError(f"{len(problems)} studies ended with an error: {', '.join(problems)}")


def show_ledger(results: Mapping[str, StudyResult], folder: Path) -> None:
    """How many claims have which verdict, and where the page is."""
    say(f"{describe_counts(count_outcomes(ledger_entries(results)))}.")
    say(f"The ledger: {folder / 'index.html'}")
