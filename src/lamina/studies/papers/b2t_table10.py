"""ROUGE of headlines with B2T without norms.

Takase et al. 2023, table 10.
"""

from __future__ import annotations

from lamina.studies.papers.headlines import DEPTHS, HEADLINES, equals, headline_runs, rouge_table
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of

SCHEMES = ("b2t", "b2t-no-norm")


class B2tTable10(Study):
    paper = "b2t"
    title = "Headlines with B2T without norms"
    substitutions = HEADLINES

    def runs(self, scale: str) -> list[StudyRun]:
        return headline_runs(scale, SCHEMES)

    @claim("B-38", "Headlines: B2T without norms comes close", paper="table 10; the stored text lacks its numbers")
    def close_to_b2t(self, results: ResultTable) -> Verdict:
        return all_of(verdict for depth in DEPTHS for verdict in equals(results, "b2t-no-norm", "b2t", depth, 0.4))

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return [Exhibit("Table 10", "ROUGE of generated headlines.", tables=(rouge_table(results, SCHEMES),))]
