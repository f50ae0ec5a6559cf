"""Training and validation loss of deep models.

Takase et al. 2023, figure 1: at 18-18 layers post-LN does not train, pre-LN and B2T do.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.studies.papers.exhibits import loss_panel, scheme_curves
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, failed, trained

SCHEMES = ("post-ln", "pre-ln", "b2t")


class B2tFig1(Study):
    paper = "b2t"
    title = "Losses of 18-18 layers"
    substitutions = SUBSTITUTIONS[::2]

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(scale, "wmt", scheme=scheme, depth="18-18", seeds=FIVE_SEEDS, curves=True) for scheme in SCHEMES
        ]

    @claim("B-01", "18-18 layers: post-LN does not train, pre-LN and B2T do", paper="failed")
    def who_trains(self, results: ResultTable) -> Verdict:
        status = {scheme: results.sample("trained", scheme=scheme) for scheme in SCHEMES}
        return all_of(
            [
                failed("post-LN", status["post-ln"]),
                trained("pre-LN", status["pre-ln"]),
                trained("B2T", status["b2t"]),
            ]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panels = [
            loss_panel(results, f"{kind} loss", scheme_curves(SCHEMES), f"{kind} loss by step")
            for kind in ("training", "validation")
        ]
        return [Exhibit("Figure 1", "Losses of models of 18-18 layers.", panels, Axes(x="step", y="loss"))]
