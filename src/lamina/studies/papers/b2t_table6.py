"""ROUGE of headlines with B2T beside other methods.

Takase et al. 2023, table 6.
"""

from __future__ import annotations

from lamina.studies.papers.headlines import DEPTHS, HEADLINES, beats, headline_runs, rouge_table
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of

OTHERS = ("dlcl", "t-fixup", "deep-norm", "admin")


class B2tTable6(Study):
    paper = "b2t"
    title = "Headlines with B2T beside other methods"
    substitutions = HEADLINES

    def runs(self, scale: str) -> list[StudyRun]:
        return headline_runs(scale, (*OTHERS, "b2t"))

    @claim("B-27", "Headlines: B2T is the best of five methods", paper="table 6; the stored text lacks its numbers")
    def best_of_five(self, results: ResultTable) -> Verdict:
        return all_of(
            verdict for depth in DEPTHS for scheme in OTHERS for verdict in beats(results, "b2t", scheme, depth)
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return [Exhibit("Table 6", "ROUGE of generated headlines.", tables=(rouge_table(results, (*OTHERS, "b2t")),))]
