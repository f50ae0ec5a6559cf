"""BLEU on IWSLT by method and depth, and the parameters that ResiDual adds.

Xie et al. 2023, table 2 and section 2.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.report.tables import Table
from lamina.studies.papers.parameter_counts import count_parameters
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, all_of, within

DEPTHS, WIDTH = (6, 12), 256
OTHERS = ("pre-ln", "post-ln")
ONE_NORM_PER_STACK = 2 * 2 * WIDTH
"""A gain and a bias of the model's width in the encoder, and in the decoder."""


class ResidualTable2(Study):
    paper = "residual"
    title = "IWSLT by method and depth"

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from measure_parameters()

    @claim(
        "R-39",
        "ResiDual has no extra parameters",
        paper="said",
        remark="As many as Pre-LN, whose stacks end with a norm; Post-LN has one norm less in each stack.",
    )
    def no_extra_parameters(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"{depth}-{depth}: norms per stack more than {other}", extra / ONE_NORM_PER_STACK, norms, norms)
            for other, norms in (("pre-ln", 0), ("post-ln", 1))
            for depth, extra in results.along("depth", "extra parameters", against=other).items()
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return [parameter_table(results)]


def measure_parameters() -> Iterator[ResultRow]:
    """The number of parameters of ResiDual minus that of the others. Differences, because stored values are rounded."""
    for depth in DEPTHS:
        own = count_parameters("iwslt-narrow", "resi-dual", depth)
        for other in OTHERS:
            extra = own - count_parameters("iwslt-narrow", other, depth)
            yield row("extra parameters", extra, against=other, depth=depth)


def parameter_table(results: ResultTable) -> Exhibit:
    rows = tuple(
        (other, *(f"{extra.mean:,.0f}" for extra in results.along("depth", "extra parameters", against=other).values()))
        for other in OTHERS
    )
    table = Table("parameters of ResiDual minus those of", ("method", *(f"E{depth}D{depth}" for depth in DEPTHS)), rows)
    caption = "Models of width 256 and a joint vocabulary of 10,000 units."
    return Exhibit("Extra parameters", caption, tables=[table])
