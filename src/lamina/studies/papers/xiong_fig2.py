"""Warm-up, learning rate and optimiser of post-LN.

Xiong et al. 2020, figure 2: with Adam and with SGD, a post-LN model needs a warm-up, and a short one costs quality.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.style import COLOURS, MARKERS, LineStyle
from lamina.studies.papers.exhibits import Condition, loss_panel, score_table
from lamina.studies.papers.trained_models import NO_WARMUP, SUBSTITUTIONS, WARMUP, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, at_least, below

WARMUPS = {1: NO_WARMUP, 500: 12, 4000: WARMUP}
"""The paper's warm-ups, each with ours."""
RATES = {"adam": (5e-4, 1e-3), "sgd": (5e-3, 1e-3)}


class XiongFig2(Study):
    paper = "xiong"
    title = "Warm-up, learning rate and optimiser of post-LN"
    substitutions = SUBSTITUTIONS[:2]

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "iwslt",
                scheme="post-ln",
                depth="6-6",
                rate=rate,
                warmup=ours,
                optimiser={"name": optimiser},
                labels={"optimiser": optimiser, "rate": rate, "warmup": warmup},
                curves=True,
            )
            for optimiser, rates in RATES.items()
            for rate in rates
            for warmup, ours in WARMUPS.items()
            if optimiser == "adam" or warmup != 500
        ]

    @claim("X-01", "Post-LN with Adam needs a warm-up: BLEU", paper="8.45 without, about 34 with")
    def needs_warmup(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"BLEU at {rate:g}", _bleu(results, "adam", rate, 4000), _bleu(results, "adam", rate, 1))
            for rate in RATES["adam"]
        )

    @claim("X-02", "Post-LN with Adam needs a warm-up: validation loss", paper="figure 2 a")
    def needs_warmup_for_the_loss(self, results: ResultTable) -> Verdict:
        def loss(rate: float, warmup: int) -> Sample:
            return results.sample("validation loss", optimiser="adam", rate=rate, warmup=warmup)

        return all_of(
            above(f"loss at {rate:g}", loss(rate, 1), loss(rate, 4000), better="lower") for rate in RATES["adam"]
        )

    @claim("X-03", "A short warm-up costs quality, more so at a higher rate", paper="31.16 at 5e-4, 2.77 at 1e-3")
    def short_warmup(self, results: ResultTable) -> Verdict:
        low, high = RATES["adam"]
        short = _bleu(results, "adam", low, 500)
        return all_of(
            [
                below("BLEU, 500 steps", short, _bleu(results, "adam", low, 4000), better="higher"),
                below("BLEU at 1e-3, 500 steps", _bleu(results, "adam", high, 500), short, better="higher"),
            ]
        )

    @claim("X-04", "SGD needs a warm-up too, so Adam is not the cause", paper="BLEU just above 0 without")
    def sgd_needs_warmup(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"BLEU at {rate:g}", _bleu(results, "sgd", rate, 4000), _bleu(results, "sgd", rate, 1))
            for rate in RATES["sgd"]
        )

    @claim("X-05", "SGD is far behind Adam", paper="figure 2")
    def sgd_is_behind(self, results: ResultTable) -> Verdict:
        """One setting of Adam is better than every setting of SGD."""
        return at_least(
            1,
            [
                all_of(
                    above(f"BLEU at {rate:g}", _bleu(results, "adam", rate, 4000), _bleu(results, "sgd", other, warmup))
                    for other in RATES["sgd"]
                    for warmup in (1, 4000)
                )
                for rate in RATES["adam"]
            ],
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        conditions: dict[str, dict[str, Condition]] = {
            optimiser: {
                f"{optimiser} {rate:g}, warm-up {warmup}": {"optimiser": optimiser, "rate": rate, "warmup": warmup}
                for rate in rates
                for warmup in WARMUPS
                if results.where("trained", optimiser=optimiser, rate=rate, warmup=warmup)
            }
            for optimiser, rates in RATES.items()
        }
        panels = [
            loss_panel(
                results,
                optimiser.capitalize() if optimiser == "adam" else "SGD",
                {
                    name: (labels, LineStyle(COLOURS[at], marker=MARKERS[optimiser == "sgd"]))
                    for at, (name, labels) in enumerate(named.items())
                },
            )
            for optimiser, named in conditions.items()
        ]
        table = score_table(
            results,
            "BLEU at the end",
            {name: labels for named in conditions.values() for name, labels in named.items()},
            {"BLEU": ("bleu", {}), "validation loss": ("validation loss", {})},
            "optimiser, learning rate and warm-up of the paper",
        )
        axes = Axes(x="step", y="validation loss")
        return [Exhibit("Figure 2", "Validation loss of post-LN, 6-6 layers.", panels, axes, tables=(table,))]


def _bleu(results: ResultTable, optimiser: str, rate: float, warmup: int) -> Sample:
    return results.sample("bleu", optimiser=optimiser, rate=rate, warmup=warmup)
