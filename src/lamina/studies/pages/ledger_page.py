"""The ledger's page: all claims of the papers with their verdicts, by paper and study, as HTML or Markdown.

A claim that was not run is listed as such. The HTML page filters by paper and by verdict without script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lamina.report.pages.page import form_of, render, write_text
from lamina.studies.ledger import StudyResult
from lamina.studies.pages.study_page import SIGNS, made_by
from lamina.studies.papers import STUDIES
from lamina.studies.study import PAPERS, Paper
from lamina.studies.verdicts import Verdict

NOT_RUN = "not run"
LEDGER_SIGNS = {**SIGNS, NOT_RUN: "–"}
PAPER_OF: dict[str, Paper] = {"X": "xiong", "S": "xiong-supplement", "B": "b2t", "R": "residual", "A": "admin"}
"""The papers by the letter of their claims."""


@dataclass(frozen=True)
class LedgerEntry:
    """One claim of the ledger."""

    id: str
    study: str
    statement: str
    paper: str
    """The paper's number."""
    remark: str = ""
    verdict: Verdict | None = None
    stale: bool = False
    page: str = ""
    """The page of the study, relative to the ledger's; empty if there is none."""

    @property
    def outcome(self) -> str:
        return self.verdict.outcome if self.verdict else NOT_RUN

    @property
    def group(self) -> Paper:
        return PAPER_OF[self.id[0]]


def ledger_entries(results: Mapping[str, StudyResult], pages: Mapping[str, str] | None = None) -> list[LedgerEntry]:
    """All claims in the order of their ids.

    results: by study.
    pages: the pages of the studies.
    """
    found = {
        each.id: each for name in STUDIES for each in _of_study(name, results.get(name), (pages or {}).get(name, ""))
    }
    return [found[id] for id in sorted(found, key=lambda id: (list(PAPER_OF).index(id[0]), id))]


def count_outcomes(entries: Sequence[LedgerEntry]) -> dict[str, int]:
    """The number of claims by outcome."""
    outcomes = [each.outcome for each in entries]
    return {name: outcomes.count(name) for name in LEDGER_SIGNS}


def describe_counts(counts: Mapping[str, int]) -> str:
    """`46 claims hold, 1 does not hold, 12 are undecided, 106 were not run`."""
    holding, failing, open_, waiting = (counts[name] for name in LEDGER_SIGNS)
    return (
        f"{holding} {'claim holds' if holding == 1 else 'claims hold'}, "
        f"{failing} {'does' if failing == 1 else 'do'} not hold, "
        f"{open_} {'is' if open_ == 1 else 'are'} undecided, {waiting} {'was' if waiting == 1 else 'were'} not run"
    )


def save_ledger(results: Mapping[str, StudyResult], file: Path, pages: Mapping[str, str] | None = None) -> None:
    """Write the page as .html or .md."""
    write_text(file, ledger_page(results, form_of(file), pages))


def ledger_page(results: Mapping[str, StudyResult], form: str = "html", pages: Mapping[str, str] | None = None) -> str:
    """The text of the page, as `html` or `md`."""
    entries = ledger_entries(results, pages)
    groups = {paper: [each for each in entries if each.group == paper] for paper in PAPERS}
    return render(
        "ledger",
        form,
        title=f"{len(entries)} claims of five papers",
        papers=PAPERS,
        groups=groups,
        counts=count_outcomes(entries),
        summary=describe_counts(count_outcomes(entries)),
        by_paper={paper: count_outcomes(each) for paper, each in groups.items()},
        signs=LEDGER_SIGNS,
        slugs={name: name.replace(" ", "-") for name in LEDGER_SIGNS},
        studies=[
            (
                name,
                STUDIES[name].title,
                made_by(results[name]) if name in results else NOT_RUN,
                (pages or {}).get(name, ""),
            )
            for name in STUDIES
        ],
        seconds=sum(each.seconds for each in results.values()),
    )


def _of_study(name: str, result: StudyResult | None, page: str) -> Iterator[LedgerEntry]:
    judged = {each.claim.id: each.verdict for each in result.judge()} if result else {}
    stale = result is not None and result.is_stale
    for claim in STUDIES[name].claims:
        yield LedgerEntry(claim.id, name, claim.statement, claim.paper, claim.remark, judged.get(claim.id), stale, page)
