"""Training and validation loss of 36-36 layers.

Takase et al. 2023, figure 9: the deep models overfit.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.studies.papers.b2t_fig8 import STEPS, WIDTH
from lamina.studies.papers.exhibits import curve_minimum, loss_panel, scheme_curves
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

SCHEMES = ("pre-ln", "b2t")


class B2tFig9(Study):
    paper = "b2t"
    title = "Losses of 36-36 layers"
    substitutions = (
        *SUBSTITUTIONS[:3:2],
        "Width 32, 200 steps, and 200 pairs of IWSLT's stand-in, which are seen some 40 times",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(scale, "few", scheme=scheme, depth="36-36", steps=STEPS, width=WIDTH, curves=True)
            for scheme in SCHEMES
        ]

    @claim("B-33", "36-36 layers overfit", paper="figure 9")
    def overfit(self, results: ResultTable) -> Verdict:
        """The minimum of the validation loss lies before 70 % of training, and the last value above it."""
        parts = []
        for scheme in SCHEMES:
            place, rise = curve_minimum(results, scheme=scheme)
            parts += [
                below(f"{scheme}: place of the minimum", place, 0.7),
                above(f"{scheme}: rise after it", rise, 0.0),
            ]
        return all_of(parts)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panels = [
            loss_panel(results, f"{kind} loss", scheme_curves(SCHEMES), f"{kind} loss by step")
            for kind in ("training", "validation")
        ]
        return [Exhibit("Figure 9", "Losses of 36-36 layers.", panels, Axes(x="step", y="loss"))]
