"""BLEU on IWSLT by method and depth, and the parameters that ResiDual adds.

Xie et al. 2023, table 2 and section 2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.style import COLOURS, LineStyle
from lamina.report.tables import Table
from lamina.studies.papers.exhibits import curve_minimum, loss_panel, score_table
from lamina.studies.papers.parameter_counts import count_parameters
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, translation_grid
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, failed, within

DEPTHS, WIDTH = (6, 12), 256
OTHERS = ("pre-ln", "post-ln")
METHODS = ("post-ln", "pre-ln", "deep-norm", "admin", "t-fixup")
"""The methods of the table beside ResiDual."""
SHALLOW, DEEP, DEEPEST = "6-6", "12-12", "18-18"
ONE_NORM_PER_STACK = 2 * 2 * WIDTH
"""A gain and a bias of the model's width in the encoder, and in the decoder."""


class ResidualTable2(Study):
    paper = "residual"
    title = "IWSLT by method and depth"
    substitutions = (
        *SUBSTITUTIONS[:2],
        "Overfitting (R-27): 200 pairs for training, which are seen some 90 times",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        table = translation_grid(scale, "iwslt", (*METHODS, "resi-dual"), (SHALLOW, DEEP), rate=5e-4)
        few = [
            model_run(scale, "few", scheme="resi-dual", depth=depth, rate=5e-4, labels={"data": "few"}, curves=True)
            for depth in (DEEP, DEEPEST)
        ]
        return [*table, *few]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
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

    @claim(
        "R-23",
        "IWSLT, 6-6 layers: ResiDual is best, post-LN above pre-LN",
        paper="35.63; 35.37 35.12 35.34 35.50 34.88",
    )
    def best_when_shallow(self, results: ResultTable) -> Verdict:
        post, pre = (_bleu(results, scheme, SHALLOW) for scheme in ("post-ln", "pre-ln"))
        return all_of([*_best(results, METHODS, SHALLOW), above("post-LN against pre-LN", post, pre)])

    @claim(
        "R-24",
        "IWSLT, 12-12 layers: post-LN fails, ResiDual is best",
        paper="36.09; 35.18 35.39 35.67 35.45",
        remark="B2T trains post-LN at 12-12 layers (B-30), so failure is a rate over seeds.",
    )
    def best_when_deep(self, results: ResultTable) -> Verdict:
        status = results.sample("trained", scheme="post-ln", depth=DEEP, data="iwslt")
        return all_of([failed("post-LN", status), *_best(results, METHODS[1:], DEEP)])

    @claim("R-25", "Deep pre-LN does not reach shallow post-LN", paper="35.18 against 35.37")
    def deep_pre_ln(self, results: ResultTable) -> Verdict:
        deep, shallow = _bleu(results, "pre-ln", DEEP), _bleu(results, "post-ln", SHALLOW)
        return below("BLEU, pre-LN 12-12 against post-LN 6-6", deep, shallow, better="higher")

    @claim("R-26", "DeepNet and Admin gain little over the plain models", paper="0.21, 0.49 against 0.91")
    def small_gains(self, results: ResultTable) -> Verdict:
        """At 12-12 layers less than 0.6 points over pre-LN, and less than ResiDual."""
        pre, own = (_bleu(results, scheme, DEEP) for scheme in ("pre-ln", "resi-dual"))
        return all_of(
            part
            for scheme in ("deep-norm", "admin")
            for gain in [_bleu(results, scheme, DEEP) - pre]
            for part in (
                below(f"{scheme}: BLEU gained", gain, 0.6, better="higher"),
                below(f"{scheme}: BLEU gained, against ResiDual", gain, own - pre, better="higher"),
            )
        )

    @claim("R-27", "Still deeper models overfit IWSLT", paper="said, no number")
    def overfit(self, results: ResultTable) -> Verdict:
        """The validation loss of 18-18 layers rises after its minimum, and more than that of 12-12."""
        (_, deep), (_, deepest) = (curve_minimum(results, data="few", depth=depth) for depth in (DEEP, DEEPEST))
        return all_of([above("18-18: rise", deepest, 0.0), above("18-18 against 12-12: rise", deepest, deep)])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        table = score_table(
            results,
            "BLEU on IWSLT",
            {scheme: {"scheme": scheme, "data": "iwslt"} for scheme in (*METHODS, "resi-dual")},
            {depth: ("bleu", {"depth": depth}) for depth in (SHALLOW, DEEP)},
            "method",
        )
        curves = {
            depth: ({"data": "few", "depth": depth}, LineStyle(colour))
            for depth, colour in zip((DEEP, DEEPEST), COLOURS[1:], strict=False)
        }
        panel = loss_panel(results, "ResiDual on few data", curves)
        return [
            Exhibit("Table 2", "BLEU on the validation set.", tables=[table]),
            Exhibit("Overfitting", "Said in the text.", [panel], Axes(x="step", y="validation loss")),
            parameter_table(results),
        ]


def _bleu(results: ResultTable, scheme: str, depth: str) -> Sample:
    return results.sample("bleu", scheme=scheme, depth=depth, data="iwslt")


def _best(results: ResultTable, others: Sequence[str], depth: str) -> list[Verdict]:
    """ResiDual is better than every other one."""
    own = _bleu(results, "resi-dual", depth)
    return [above(f"{depth} against {scheme}", own, _bleu(results, scheme, depth)) for scheme in others]


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
