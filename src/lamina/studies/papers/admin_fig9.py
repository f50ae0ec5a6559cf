"""Development perplexity of 6-6, 12-12 and 18-18 layers.

Liu et al. 2020, figures 1 and 9: Admin is as fast as pre-LN early and best late.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.studies.papers.exhibits import loss_panel, scheme_curves
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, below

SCHEMES = ("post-ln", "pre-ln", "admin")
DEPTHS = ("6-6", "12-12", "18-18")


class AdminFig9(Study):
    paper = "admin"
    title = "Validation loss by depth"
    substitutions = (*SUBSTITUTIONS[::2], "RAdam: Adam", "Perplexity: its logarithm")

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, DEPTHS, curves=True)

    @claim("A-42", "Admin is as fast as pre-LN early and best late", paper="figures 1 and 9")
    def fast_and_best(self, results: ResultTable) -> Verdict:
        """At 10 % of training the perplexity is at most 2 % above, so the loss at most 0.02."""
        parts = []
        for depth in DEPTHS:
            admin, pre = (
                results.along("step", "validation loss by step", scheme=scheme, depth=depth)
                for scheme in ("admin", "pre-ln")
            )
            first, last = min(pre, key=float), max(pre, key=float)
            parts.append(below(f"{depth}, early: difference", admin[first] - pre[first], 0.02))
            parts.append(below(f"{depth}, late", admin[last], pre[last]))
        return all_of(parts)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panels = [loss_panel(results, f"{depth} layers", scheme_curves(SCHEMES, depth=depth)) for depth in DEPTHS]
        return [Exhibit("Figures 1 and 9", "Validation loss.", panels, Axes(x="step", y="validation loss"))]
