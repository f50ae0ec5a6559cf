"""Loss against the number of layers, up to 50-50.

Takase et al. 2023, figure 8: post-LN trains up to 12-12 layers; B2T beats pre-LN at every depth.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import scheme_style
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, failed, trained

SCHEMES = ("post-ln", "pre-ln", "b2t")
DEPTHS = (6, 12, 18, 36, 50)
STEPS, WIDTH = 200, 32


class B2tFig8(Study):
    paper = "b2t"
    title = "Loss against the number of layers"
    substitutions = (*SUBSTITUTIONS[:3:2], "Width 32 and 200 steps at every depth")

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "wmt",
                scheme=scheme,
                depth=f"{depth}-{depth}",
                steps=STEPS,
                width=WIDTH,
                labels={"layers": 2 * depth},
                seeds=FIVE_SEEDS if scheme == "post-ln" else THREE_SEEDS,
            )
            for depth in DEPTHS
            for scheme in SCHEMES
        ]

    @claim(
        "B-30",
        "Post-LN trains at 12-12 layers and fails from 18-18 on",
        paper="figure 8",
        remark="Admin and ResiDual say that 12-12 diverges, as does this appendix that it trains; for users of Admin's "
        "program 12-3 diverged. Xu et al. 2019 train 24 post-LN layers with a Lipschitz-bounded initialisation.",
    )
    def where_post_fails(self, results: ResultTable) -> Verdict:
        status = results.along("layers", "trained", scheme="post-ln")
        return all_of(
            (trained if float(layers) <= 24 else failed)(f"{layers} layers", sample)
            for layers, sample in status.items()
        )

    @claim("B-31", "B2T beats pre-LN at every depth up to 100 layers", paper="figure 8")
    def b2t_beats_pre(self, results: ResultTable) -> Verdict:
        b2t, pre = (results.along("layers", "best validation loss", scheme=scheme) for scheme in ("b2t", "pre-ln"))
        return all_of(below(f"{layers} layers", b2t[layers], pre[layers]) for layers in pre)

    @claim("B-32", "Beyond 18-18 layers depth brings nothing", paper="figure 8")
    def no_gain_beyond(self, results: ResultTable) -> Verdict:
        """Neither scheme has a lower loss at 36-36 or 50-50 than at 18-18."""
        return all_of(
            above(f"{scheme}, {layers} layers", losses[layers], losses[36])
            for scheme in ("pre-ln", "b2t")
            for losses in [results.along("layers", "best validation loss", scheme=scheme)]
            for layers in (72, 100)
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        losses = {scheme: _trained_only(results, scheme) for scheme in SCHEMES}
        curves = [
            Curve(scheme, found.curve("layers", "best validation loss"), scheme_style(scheme))
            for scheme, found in losses.items()
            if found
        ]
        panel = Panel("best validation loss", tuple(curves))
        caption = "Best validation loss against the layers of both stacks; where all seeds failed there is no point."
        return [Exhibit("Figure 8", caption, [panel], Axes(x="layers", y="validation loss"))]


def _trained_only(results: ResultTable, scheme: str) -> ResultTable:
    """The losses of the runs that did not fail."""
    rows = results.where("best validation loss", scheme=scheme)
    return ResultTable(row for row in rows if row.value is not None)
