"""Development perplexity of 6-6 layers.

Liu et al. 2020, figure 1: pre-LN is faster early and worse late than post-LN.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.studies.papers.exhibits import loss_panel, scheme_curves
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

SCHEMES = ("post-ln", "pre-ln", "admin")


class AdminFig1(Study):
    paper = "admin"
    title = "Validation loss of 6-6 layers"
    substitutions = (*SUBSTITUTIONS[::2], "RAdam: Adam", "Perplexity: its logarithm")

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, ("6-6",), curves=True)

    @claim("A-41", "6-6 layers: pre-LN is faster early and worse late than post-LN", paper="figure 1")
    def early_and_late(self, results: ResultTable) -> Verdict:
        post, pre = (
            results.along("step", "validation loss by step", scheme=scheme) for scheme in ("post-ln", "pre-ln")
        )
        first, last = min(pre, key=float), max(pre, key=float)
        return all_of(
            [
                below("loss at 10 %", pre[first], post[first]),
                above("loss at the end", pre[last], post[last], better="lower"),
            ]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panel = loss_panel(results, "6-6 layers", scheme_curves(SCHEMES))
        return [Exhibit("Figure 1", "Validation loss.", [panel], Axes(x="step", y="validation loss"))]
