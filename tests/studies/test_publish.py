"""The folder of the ledger: results, runs and pages."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from lamina.studies.ledger import StudyResult
from lamina.studies.publish import choose_results, publish_ledger
from lamina.studies.shared_runs.archive import RUNS, RunArchive, read_lines
from support.made_runs import made_numbers, made_study_result


def test_results_runs_and_pages_are_added(tmp_path: Path) -> None:
    source, target = tmp_path / "runs", tmp_path / "ledger"
    for name, key in (("b2t-fig1", "a"), ("b2t-fig6", "b")):
        made_study_result(name, failing=("post-ln",)).model_copy(update={"runs": (key,)}).write(source)
        RunArchive(source).add(made_numbers(key))
    RunArchive(source).add(made_numbers("of no result"))
    results = publish_ledger(source, target)
    assert list(results) == ["b2t-fig1", "b2t-fig6"]
    assert [each.key for each in read_lines(target / RUNS)] == ["a", "b"]
    for name in ("index.html", "index.md", "b2t-fig1.html", "b2t-fig6.tiny.json"):
        assert (target / name).is_file()
    again = publish_ledger(tmp_path / "nothing", target)
    assert again == results
    assert [each.key for each in read_lines(target / RUNS)] == ["a", "b"]


def test_of_several_results_of_a_study_one_is_chosen() -> None:
    def made(**changes: object) -> StudyResult:
        return made_study_result("b2t-fig1").model_copy(update=changes)

    old, new, stale, micro = (
        made(made=date(2026, 1, 1)),
        made(),
        made(version=0, made=date(2027, 1, 1)),
        made(scale="micro"),
    )
    for order in ([old, new, stale, micro], [micro, stale, new, old]):
        assert choose_results(order) == {"b2t-fig1": new}
    assert choose_results([micro]) == {"b2t-fig1": micro}
