"""Publishing the ledger: results, numbers of runs and pages in one folder that is committed with the documents.

docs/ledger/
  index.html, index.md       all claims
  <study>.<scale>.json       the result of a study: samples, verdicts, versions, machine, time
  <study>.html               its page with the figures
  runs.jsonl                 the numbers of the runs that these results are made of
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lamina.studies.ledger import StudyResult, read_ledger
from lamina.studies.pages.ledger_page import save_ledger
from lamina.studies.pages.study_page import save_study
from lamina.studies.shared_runs.archive import RUNS, RunArchive

SCALES = ("paper", "small", "tiny", "micro")
"""The larger scale counts where a study has results at several."""


def publish_ledger(source: Path, target: Path) -> dict[str, StudyResult]:
    """Add the results of `source` to `target` and write all pages there; returns the results by study."""
    results = choose_results([*read_ledger(target), *read_ledger(source)])
    pages = {}
    for name, result in results.items():
        result.write(target)
        pages[name] = f"{name}.html"
        save_study(result, target / pages[name])
    keys = [key for result in results.values() for key in result.runs]
    RunArchive(source, [target]).write(target / RUNS, keys)
    save_ledger(results, target / "index.html", pages)
    save_ledger(results, target / "index.md", pages)
    return results


def choose_results(found: Sequence[StudyResult]) -> dict[str, StudyResult]:
    """One result for each study: of the largest scale; then one that is not stale; then that with the fewest runs
    missing; then the newest; then the last."""
    chosen: dict[str, StudyResult] = {}
    for each in found:
        other = chosen.get(each.study)
        if other is None or _rank(each) >= _rank(other):
            chosen[each.study] = each
    return dict(sorted(chosen.items()))


def _rank(result: StudyResult) -> tuple[int, bool, int, int]:
    return -SCALES.index(result.scale), not result.is_stale, -result.missing, result.made.toordinal()
