"""Validation loss of pre-LN and B2T at 18-18 layers.

Takase et al. 2023, figure 6: B2T's loss stays below that of pre-LN.
"""

from __future__ import annotations

import math

from lamina.diagnosis.measurement import Axes
from lamina.studies.papers.exhibits import loss_panel, scheme_curves
from lamina.studies.papers.trained_models import SUBSTITUTIONS, WARMUP, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, at_least, below

SCHEMES = ("pre-ln", "b2t")


class B2tFig6(Study):
    paper = "b2t"
    title = "Validation loss of 18-18 layers"
    substitutions = SUBSTITUTIONS[::2]

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(scale, "wmt", scheme=scheme, depth="18-18", seeds=FIVE_SEEDS, curves=True) for scheme in SCHEMES
        ]

    @claim("B-18", "18-18 layers: B2T's validation loss stays below that of pre-LN", paper="figure 6")
    def stays_below(self, results: ResultTable) -> Verdict:
        """At 80 % of the points after the warm-up."""
        later = results.between("step", low=WARMUP + 1)
        pre, b2t = (later.along("step", "validation loss by step", scheme=scheme) for scheme in SCHEMES)
        compared = [below(f"step {step}", b2t[step], pre[step]) for step in pre if step in b2t]
        return at_least(math.ceil(0.8 * len(compared)), compared)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panel = loss_panel(results, "18-18 layers", scheme_curves(SCHEMES))
        return [Exhibit("Figure 6", "Loss on the validation set.", [panel], Axes(x="step", y="validation loss"))]
