"""BLEU of eight methods on WMT, by depth and test year.

Xie et al. 2023, tables 3, 6 and 7: ResiDual is best at 6-6 and at 18-18 layers.
"""

from __future__ import annotations

from lamina.studies.papers.b2t_table1 import SAME_BASELINES
from lamina.studies.papers.exhibits import average_bleu, by_year, year_bleu
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, at_least, close, failed

OTHERS = ("post-ln", "pre-ln", "dlcl", "t-fixup", "deep-norm", "admin", "b2t")
DEPTHS = ("6-6", "18-18")


class ResidualTable3(Study):
    paper = "residual"
    title = "BLEU of eight methods on WMT"
    substitutions = SUBSTITUTIONS[::2]

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", (*OTHERS, "resi-dual"), DEPTHS)

    @claim(
        "R-28",
        "6-6 layers: ResiDual is best on average and on every year but 2016",
        paper="average 26.85",
        remark=SAME_BASELINES,
    )
    def best_at_six(self, results: ResultTable) -> Verdict:
        average = _beats_all(results, "6-6")
        return all_of([average, at_least(6, _by_year(results, "6-6"))])

    @claim("R-29", "18-18 layers: ResiDual is best on all seven years, post-LN fails", paper="27.65; pre-LN 26.57")
    def best_at_eighteen(self, results: ResultTable) -> Verdict:
        status = results.sample("trained", scheme="post-ln", depth="18-18")
        return all_of([failed("post-LN", status), *_by_year(results, "18-18")])

    @claim("R-30", "18-18 pre-LN is no better than 6-6 post-LN", paper="26.57, 26.59")
    def deep_pre(self, results: ResultTable) -> Verdict:
        pre, post = average_bleu(results, "pre-ln", "18-18"), average_bleu(results, "post-ln", "6-6")
        return close("average BLEU, pre-LN 18-18", pre, post, 0.3)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        table = by_year(results, "BLEU by test year", DEPTHS, (*OTHERS, "resi-dual"))
        return [Exhibit("Tables 3, 6 and 7", "BLEU on seven test sets.", tables=(table,))]


def _beats_all(results: ResultTable, depth: str) -> Verdict:
    own = average_bleu(results, "resi-dual", depth)
    return all_of(above(f"against {scheme}", own, average_bleu(results, scheme, depth)) for scheme in OTHERS)


def _by_year(results: ResultTable, depth: str) -> list[Verdict]:
    """For each year whether ResiDual beats every other scheme."""
    own = year_bleu(results, "resi-dual", depth)
    others = {scheme: year_bleu(results, scheme, depth) for scheme in OTHERS}
    return [
        all_of(above(f"{year} against {scheme}", own[year], years[year]) for scheme, years in others.items())
        for year in own
    ]
