"""A grid of learning rates and β₂ without warm-up.

Liu et al. 2020, figure 10: pre-LN and Admin converge everywhere, post-LN in about half of the grid.
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.trained_models import NO_WARMUP, SUBSTITUTIONS, model_run
from lamina.studies.result_table import Missing, ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, close, within

SCHEMES = ("post-ln", "pre-ln", "admin")
RATES = (1e-4, 2e-4, 3e-4, 4e-4, 5e-4)
BETAS = (0.99, 0.995, 0.999)


class AdminFig10(Study):
    paper = "admin"
    title = "Learning rates and β₂ without warm-up"
    substitutions = SUBSTITUTIONS[:2]

    def runs(self, scale: str) -> list[StudyRun]:
        rates, betas = (RATES[::4], BETAS[:1]) if scale == "micro" else (RATES, BETAS)
        return [
            model_run(
                scale,
                "iwslt",
                scheme=scheme,
                depth="6-6",
                rate=rate,
                warmup=NO_WARMUP,
                decay="linear",
                optimiser={"name": "radam", "betas": [0.9, beta]},
                labels={"rate": rate, "beta": beta},
                seeds=(1,),
            )
            for scheme in SCHEMES
            for rate in rates
            for beta in betas
        ]

    @claim("A-01", "Pre-LN converges in the whole grid", paper="15 of 15")
    def pre_converges(self, results: ResultTable) -> Verdict:
        return within("failed cells", _failed_cells(results, "pre-ln"), 0, 0)

    @claim("A-02", "Post-LN diverges in about half of it, more at higher rates", paper="7 of 15")
    def post_diverges(self, results: ResultTable) -> Verdict:
        low, high = (
            _failed_cells(results, "post-ln", keep) for keep in (lambda rate: rate < 3e-4, lambda rate: rate > 3e-4)
        )
        number = within("failed cells", _failed_cells(results, "post-ln"), 5, 9)
        return all_of([number, above("failed at 4e-4 and 5e-4", high, low)])

    @claim("A-03", "Where post-LN converges it mostly beats pre-LN", paper="7 of 8")
    def post_beats_pre(self, results: ResultTable) -> Verdict:
        return above("share of cells", _share_above_pre(results, "post-ln"), 0.7499)

    @claim("A-04", "Admin converges everywhere and beats pre-LN", paper="15 of 15 in the figure")
    def admin_beats_pre(self, results: ResultTable) -> Verdict:
        share = _share_above_pre(results, "admin")
        return all_of(
            [within("failed cells", _failed_cells(results, "admin"), 0, 0), above("share of cells", share, 12.5 / 15)]
        )

    @claim("A-05", "Admin's best equals post-LN's best", paper="35.89, 35.87")
    def same_best(self, results: ResultTable) -> Verdict:
        """The best cells of a grid that was run once: compared as they are, without an interval."""
        post, admin = (max(_cells(results, scheme).values, default=0.0) for scheme in ("post-ln", "admin"))
        return close("best BLEU", Sample.exact(admin), post, 0.3)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        columns = {f"{rate:g}": ("bleu", {"rate": rate}) for rate in RATES}
        tables = [
            score_table(
                results,
                scheme,
                {f"{beta:g}": {"scheme": scheme, "beta": beta} for beta in BETAS},
                columns,
                "β₂ ↓ learning rate of the paper →",
            )
            for scheme in SCHEMES
        ]
        return [Exhibit("Figure 10", "BLEU of every cell, one seed.", tables=tables)]


def _cells(results: ResultTable, scheme: str, keep: Callable[[float], bool] = lambda rate: True) -> Sample:
    """BLEU of the cells of the grid, which are the sample where a paper ran a grid once; None where it failed."""
    rows = [row for row in results.where("bleu", scheme=scheme) if keep(float(row.labels["rate"]))]
    if not rows:
        raise Missing(f"bleu was not measured for {scheme}")
    return Sample({number: row.value for number, row in enumerate(rows)})


def _failed_cells(results: ResultTable, scheme: str, keep: Callable[[float], bool] = lambda rate: True) -> Sample:
    return Sample.exact(float(_cells(results, scheme, keep).num_failed))


def _share_above_pre(results: ResultTable, scheme: str) -> Sample:
    """The share of the cells in which both converge where the scheme has the higher BLEU."""
    differences = (_cells(results, scheme) - _cells(results, "pre-ln")).values
    if not differences:
        raise Missing(f"{scheme} converges nowhere")
    return Sample.exact(sum(each > 0 for each in differences) / len(differences))
