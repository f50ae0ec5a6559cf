"""Headlines: the runs, the table and the comparisons that three studies share (Takase et al. 2023, tables 2, 6, 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamina.report.tables import Table
from lamina.studies.papers.exhibits import Condition, score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.verdicts import Verdict, above, close

DEPTHS = ("6-6", "18-18")
ROUGE = ("rouge1", "rouge2", "rougeL")
HEADLINES = (SUBSTITUTIONS[0], "Gigaword headlines: paragraphs with headlines in marn")


def headline_runs(scale: str, schemes: Sequence[str]) -> list[StudyRun]:
    """Every scheme at both depths."""
    return [
        model_run(
            scale,
            "headlines",
            scheme=scheme,
            depth=depth,
            task="summarisation",
            seeds=FIVE_SEEDS if scheme == "post-ln" and depth == "18-18" else THREE_SEEDS,
        )
        for depth in DEPTHS
        for scheme in schemes
    ]


def rouge_table(results: ResultTable, schemes: Iterable[str]) -> Table:
    """ROUGE of every scheme and depth."""
    rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for depth in DEPTHS for scheme in schemes}
    columns: dict[str, tuple[str, Condition]] = {name: (f"test {name}", {}) for name in ROUGE}
    return score_table(results, "ROUGE F1", rows, columns, "scheme, layers")


def beats(results: ResultTable, better: str, worse: str, depth: str) -> list[Verdict]:
    """The first scheme is better in all three."""
    return [
        above(f"{name}, {better}", _rouge(results, better, depth, name), _rouge(results, worse, depth, name))
        for name in ROUGE
    ]


def equals(results: ResultTable, one: str, other: str, depth: str, tolerance: float) -> list[Verdict]:
    """The two are equal in all three."""
    return [
        close(f"{name}, {one}", _rouge(results, one, depth, name), _rouge(results, other, depth, name), tolerance)
        for name in ROUGE
    ]


def _rouge(results: ResultTable, scheme: str, depth: str, name: str) -> Sample:
    return results.sample(f"test {name}", scheme=scheme, depth=depth)
