"""Gradients against updates of the attention matrices.

Liu et al. 2020, figures 5 and 11: gradients are unbalanced even in pre-LN; Adam makes the updates similar, SGD cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import part_styles
from lamina.runs.run import Run
from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.matrix_norms import ATTENTION, attention_norms, norms_of_steps, share_of_smaller_queries
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, translation_grid
from lamina.studies.papers.trained_stages import AFTER, BEFORE, stages_of
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

DEPTHS = ("12-12", "18-18")
SCHEMES = ("post-ln", "pre-ln", "admin")
STEPS = 10
"""The number of steps between which updates are measured; the paper measures between epochs."""
SGD_RATE = 5e-3
"""The better one of the two learning rates of Xiong et al. 2020 for SGD."""


class AdminFig5(Study):
    paper = "admin"
    title = "Gradients against updates of the attention matrices"
    substitutions = (
        *SUBSTITUTIONS[:3],
        "RAdam: Adam",
        f"Updates between epochs: of {STEPS} further steps, before and after training",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        sgd = [
            model_run(
                scale,
                "iwslt",
                scheme=scheme,
                depth="6-6",
                rate=SGD_RATE,
                optimiser={"name": "sgd"},
                labels={"data": "iwslt", "optimiser": "sgd"},
            )
            for scheme in SCHEMES
        ]
        adam = [
            model_run(
                scale,
                "iwslt",
                scheme=scheme,
                depth="6-6",
                rate=7e-4,
                labels={"data": "iwslt", "optimiser": "adam"},
            )
            for scheme in SCHEMES
        ]
        return [*translation_grid(scale, "wmt", ("pre-ln",), DEPTHS), *adam, *sgd]

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """The norms of attention matrices relative to the largest, over a few further steps."""
        if run.config.model.residual != "pre-ln" or run.config.optimiser.name != "adam":
            return
        for stage in stages_of(run, batches=STEPS, tokens=256):
            norms = attention_norms(norms_of_steps(stage))
            yield row("share of smaller queries and keys", share_of_smaller_queries(norms), stage=stage.name)
            for quantity in ("gradient", "update"):
                values = {name: getattr(each, quantity) for name, each in norms.items()}
                largest = max(values.values())
                yield row("spread", largest / min(values.values()), stage=stage.name, of=quantity)
                for name, value in values.items():
                    if name.stack == "encoder" and name.layer is not None and stage.name == AFTER:
                        yield row(f"relative {quantity}", value / largest, matrix=name.kind, layer=name.layer + 1)

    @claim(
        "A-13",
        "Gradients of attention matrices are unbalanced even in pre-LN: those of queries and keys are smaller",
        paper="figure 11",
        remark="The appendix names k and v as the matrices inside the softmax; q and k are.",
    )
    def unbalanced(self, results: ResultTable) -> Verdict:
        return all_of(
            above(
                f"{depth}, {stage}: share of sub-layers",
                results.sample("share of smaller queries and keys", depth=depth, stage=stage),
                0.9,
            )
            for depth in DEPTHS
            for stage in (BEFORE, AFTER)
        )

    @claim("A-14", "Adam evens the updates out", paper="figures 5 and 11")
    def evens_out(self, results: ResultTable) -> Verdict:
        """The largest update ÷ the least is below a third of the same of the gradients."""
        return all_of(
            below(f"{depth}, {AFTER}: spread of updates ÷ that of gradients", update / gradient, 1 / 3)
            for depth in DEPTHS
            for update, gradient in [
                [results.sample("spread", depth=depth, stage=AFTER, of=each) for each in ("update", "gradient")]
            ]
        )

    @claim("A-15", "SGD cannot train Transformers well, lacking that", paper="said, no number")
    def sgd_is_worse(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"{scheme}: loss with SGD", sgd, adam, better="lower")
            for scheme in SCHEMES
            for sgd, adam in [
                [results.sample("validation loss", scheme=scheme, optimiser=each) for each in ("sgd", "adam")]
            ]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        styles = dict(zip(ATTENTION, part_styles(ATTENTION), strict=True))
        panels = [
            Panel(
                f"{quantity}, {depth}",
                tuple(
                    Curve(matrix, results.curve("layer", f"relative {quantity}", depth=depth, matrix=matrix), style)
                    for matrix, style in styles.items()
                    if results.where(f"relative {quantity}", depth=depth, matrix=matrix)
                ),
            )
            for depth in DEPTHS
            for quantity in ("gradient", "update")
        ]
        table = score_table(
            results,
            "Validation loss on IWSLT, 6-6 layers",
            {scheme: {"scheme": scheme} for scheme in SCHEMES},
            {name: ("validation loss", {"optimiser": name}) for name in ("adam", "sgd")},
            "scheme",
        )
        caption = "Norms of the attention matrices of the pre-LN encoder after training, relative to the largest."
        axes = Axes(x="layer", y="relative norm", log_y=True)
        return [Exhibit("Figures 5 and 11", caption, panels, axes, tables=(table,))]
