"""B2T without layer norms: two weights keep the forward pass from exploding.

Takase et al. 2022, equations 6 to 8 and table 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import NEUTRAL, part_styles
from lamina.studies.papers.exhibits import average_bleu, by_year
from lamina.studies.papers.no_norm_streams import PAPER_WEIGHTS, WITHOUT_WEIGHTS, measure_no_norm_streams, paper_alpha
from lamina.studies.papers.trained_models import SUBSTITUTIONS, of_trained_models, translation_grid
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

DEPTHS, MIDDLE = (6, 18, 60), 18
MOST_LAYERS = 60
SCHEMES, TRAINED_DEPTHS = ("b2t", "b2t-no-norm"), ("6-6", "18-18")


class B2TTable9(Study):
    paper = "b2t"
    title = "B2T without layer norms"
    substitutions = (
        "WMT En-De: the embedded language pair; encoders of the paper's width, 512",
        *of_trained_models(*SUBSTITUTIONS[::2]),
    )

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, TRAINED_DEPTHS)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        for num_layers in range(1, MOST_LAYERS + 1):
            yield row("α", paper_alpha(num_layers), layers=num_layers)
        conditions = [(PAPER_WEIGHTS, depth) for depth in context.choose(micro=(2, 3), otherwise=DEPTHS)]
        conditions += [(weights, context.choose(micro=3, otherwise=MIDDLE)) for weights in WITHOUT_WEIGHTS]
        for at, (weights, depth) in enumerate(conditions):
            context.progress("streams without norms", at, len(conditions))
            for seed in (1, 2, 3):
                yield from measure_no_norm_streams(context, depth, weights, seed)

    @claim("B-34", "Without norms and weights the forward pass explodes", paper="said")
    def explodes(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"{weights}: slope of ln std by layer", _slope(results, weights), 0.1) for weights in WITHOUT_WEIGHTS
        )

    @claim(
        "B-35",
        "α and β stop the explosion",
        paper="said",
        remark="The weights also make the stream of deep stacks fade; the paper reports 6-6 and 18-18 only.",
    )
    def stopped(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{depth} layers: std(x_L) ÷ std(x₀)", _growth(results, int(depth)), 3.0)
            for depth in _depths(results)
        )

    @claim("B-36", "α grows up to N = 9, then falls", paper="9")
    def largest_alpha(self, results: ResultTable) -> Verdict:
        alphas = {int(layers): sample.mean for layers, sample in results.along("layers", "α").items()}
        return within("N with the largest α", Sample.exact(max(alphas, key=lambda each: alphas[each])), 9, 9)

    @claim(
        "B-37",
        "B2T without norms comes close but a little lower",
        paper="26.48 against 26.53; 27.10 against 27.30 (table 9 prints the 60-12 row)",
    )
    def close_but_lower(self, results: ResultTable) -> Verdict:
        """Within 0.4 points on average over the test years, and not higher."""
        return all_of(
            within(f"{depth}: BLEU without norms − with", average_bleu(results, "b2t-no-norm", depth) - plain, -0.4, 0)
            for depth in TRAINED_DEPTHS
            for plain in [average_bleu(results, "b2t", depth)]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        conditions: dict[str, dict[str, Any]] = {
            f"{PAPER_WEIGHTS}, {depth} layers": {"weights": PAPER_WEIGHTS, "depth": depth} for depth in _depths(results)
        }
        conditions |= {weights: {"weights": weights} for weights in WITHOUT_WEIGHTS}
        curves = [
            Curve(name, results.curve("layer", "standard deviation", **labels), style)
            for (name, labels), style in zip(conditions.items(), part_styles(list(conditions)), strict=True)
        ]
        alphas = Panel("α", (Curve("min(N/12, N^-0.15)", results.curve("layers", "α"), NEUTRAL),))
        table = by_year(results, "BLEU by test year", TRAINED_DEPTHS, SCHEMES)
        return [
            Exhibit(
                "Forward pass without norms",
                "Standard deviation of the encoder's stream before the first layer (0) and after each. The paper says "
                "in words what this figure shows.",
                [Panel("encoder", tuple(curves))],
                Axes(x="layer", y="standard deviation", log_y=True),
            ),
            Exhibit("Equation 7", "α against the number of layers N.", [alphas], Axes(x="N", y="α")),
            Exhibit("Table 9", "BLEU on seven test sets.", tables=[table]),
        ]


def _depths(results: ResultTable) -> list[int]:
    return sorted({int(each.labels["depth"]) for each in results.where("standard deviation", weights=PAPER_WEIGHTS)})


def _slope(results: ResultTable, weights: str) -> Sample:
    return results.slope("layer", "standard deviation", log_y=True, weights=weights)


def _growth(results: ResultTable, depth: int) -> Sample:
    paper = results.where("standard deviation", weights=PAPER_WEIGHTS, depth=depth)
    return paper.sample("standard deviation", layer=depth) / paper.sample("standard deviation", layer=0)
