"""Post-LN with a small constant learning rate.

Xiong et al. 2020, supplement, figure 6: post-LN trains without warm-up at a small rate, slowly.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.style import COLOURS, LineStyle
from lamina.studies.papers.exhibits import loss_panel
from lamina.studies.papers.trained_models import NO_WARMUP, SUBSTITUTIONS, WARMUP, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, below

METHODS = {
    "1e-3, warm-up": (1e-3, WARMUP, "inverse-root"),
    "1e-3, none": (1e-3, NO_WARMUP, "inverse-root"),
    "1e-4, constant": (1e-4, NO_WARMUP, "constant"),
}


class XiongFig6(Study):
    paper = "xiong-supplement"
    title = "Post-LN with a small constant learning rate"
    substitutions = SUBSTITUTIONS[:2]

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "iwslt",
                scheme="post-ln",
                depth="6-6",
                rate=rate,
                warmup=warmup,
                decay=decay,
                optimiser={"name": "adam"},
                labels={"method": name},
                curves=True,
            )
            for name, (rate, warmup, decay) in METHODS.items()
        ]

    @claim("S-09", "A small constant rate trains post-LN without warm-up, slowly", paper="loss about 4.3")
    def trains_slowly(self, results: ResultTable) -> Verdict:
        with_warmup, without, small = (results.sample("validation loss", method=method) for method in METHODS)
        return all_of(
            [below("with warm-up against 1e-4", with_warmup, small), below("1e-4 against 1e-3 without", small, without)]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        curves = {
            method: ({"method": method}, LineStyle(colour))
            for method, colour in zip(METHODS, COLOURS[1:], strict=False)
        }
        panel = loss_panel(results, "post-LN, 6-6 layers", curves)
        return [Exhibit("Figure 6", "Validation loss of post-LN.", [panel], Axes(x="step", y="validation loss"))]
