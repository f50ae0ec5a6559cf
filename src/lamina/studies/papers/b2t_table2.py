"""ROUGE of headlines with post-LN, pre-LN and B2T.

Takase et al. 2023, table 2.
"""

from __future__ import annotations

from lamina.studies.papers.headlines import HEADLINES, beats, equals, headline_runs, rouge_table
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, failed

SCHEMES = ("post-ln", "pre-ln", "b2t")


class B2tTable2(Study):
    paper = "b2t"
    title = "Headlines with post-LN, pre-LN and B2T"
    substitutions = HEADLINES

    def runs(self, scale: str) -> list[StudyRun]:
        return headline_runs(scale, SCHEMES)

    @claim(
        "B-19",
        "6-6 layers: post-LN beats pre-LN on headlines, B2T equals post-LN",
        paper="38.57/19.37/35.79; 38.27/19.29/35.39; 38.43/19.37/35.72",
    )
    def shallow(self, results: ResultTable) -> Verdict:
        parts = [*beats(results, "post-ln", "pre-ln", "6-6"), *equals(results, "b2t", "post-ln", "6-6", 0.3)]
        return all_of(parts)

    @claim(
        "B-20",
        "18-18 layers: post-LN fails on headlines, B2T beats pre-LN",
        paper="39.61/20.28/36.66 against 38.97/19.94/35.99",
    )
    def deep(self, results: ResultTable) -> Verdict:
        status = results.sample("trained", scheme="post-ln", depth="18-18")
        return all_of([failed("post-LN", status), *beats(results, "b2t", "pre-ln", "18-18")])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return [Exhibit("Table 2", "ROUGE of generated headlines.", tables=(rouge_table(results, SCHEMES),))]
