"""The connection of B2T over all norms, the last one included.

Takase et al. 2023, section 4: a connection that skips every norm of a layer does harm.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import average_bleu, by_year
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, below

SCHEMES = ("b2t", "b2t-over-all")


class B2tAblation(Study):
    paper = "b2t"
    title = "The connection over all norms"
    substitutions = SUBSTITUTIONS[::2]

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, ("6-6",))

    @claim("B-11", "A connection over all norms, the last included, does harm", paper="said, no number")
    def does_harm(self, results: ResultTable) -> Verdict:
        b2t, over_all = (average_bleu(results, scheme, "6-6") for scheme in SCHEMES)
        return below("average BLEU", over_all, b2t, better="higher")

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return [
            Exhibit("Ablation", "BLEU, 6-6 layers.", tables=(by_year(results, "BLEU by test year", ("6-6",), SCHEMES),))
        ]
