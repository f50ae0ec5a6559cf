"""The page of a study: its claims with their verdicts, then the figures and tables in the paper's layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lamina.diagnosis.measurement import Axes, Description
from lamina.formatting import duration
from lamina.report.figures.section import FigureSection, anchor_of
from lamina.report.pages.page import form_of, render, write_text
from lamina.studies.ledger import StudyResult
from lamina.studies.papers import STUDIES
from lamina.studies.study import PAPERS, Exhibit, JudgedClaim

SIGNS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}


def save_study(result: StudyResult, file: Path) -> None:
    """Write the page as .html or .md."""
    write_text(file, study_page(result, form_of(file)))


def study_page(result: StudyResult, form: str = "html") -> str:
    """The text of the page, as `html` or `md`."""
    study = STUDIES[result.study]()
    judged, exhibits = result.judge(), study.exhibits(result.results)
    return render(
        "study",
        form,
        title=f"{result.study}: {study.title}",
        paper=PAPERS[study.paper],
        judged=judged,
        signs=SIGNS,
        counts=count_verdicts(judged),
        substitutions=study.substitutions if result.scale in ("micro", "tiny") else (),
        stale=result.is_stale,
        made=made_by(result),
        sections=[exhibit_section(each) for each in exhibits if each.panels or each.maps],
        tables=[(each, table) for each in exhibits for table in each.tables],
    )


def count_verdicts(judged: Sequence[JudgedClaim]) -> str:
    """`12 claims hold, 1 does not hold, 3 are undecided`."""
    outcomes = [each.verdict.outcome for each in judged]
    holding, failing, open_ = (outcomes.count(name) for name in ("holds", "does not hold", "undecided"))
    claims = f"{holding} {'claim holds' if holding == 1 else 'claims hold'}"
    not_holding = f"{failing} {'does' if failing == 1 else 'do'} not hold"
    return f"{claims}, {not_holding}, {open_} {'is' if open_ == 1 else 'are'} undecided"


def made_by(result: StudyResult) -> str:
    """`Scale tiny, made on 2026-11-17 in 4 min 2 s; lamina 0.1.0, torch 2.13.0; x86_64, 1 threads`."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    missing = f"{result.missing} of {len(result.runs)} runs are missing. " if result.missing else ""
    made = f"Scale {result.scale}, made on {result.made} in {duration(result.seconds)}"
    return f"{missing}{made}; {versions}; {result.machine}"


def exhibit_section(exhibit: Exhibit) -> FigureSection:
    """The section of a page that shows a figure of a study."""
    axes = exhibit.axes or Axes(x="", y="")
    about = Description(key="", title=exhibit.title, formula="", source="", look_for=exhibit.caption, axes=axes)
    maps = {"": list(exhibit.maps.items())} if exhibit.maps else {}
    return FigureSection(anchor_of(exhibit.title), about, exhibit.panels, maps)
