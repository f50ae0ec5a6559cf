"""Warm-up and decay of the learning rate.

Xie et al. 2023, tables 5 and 8: without warm-up post-LN fails, pre-LN loses and ResiDual does not.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.trained_models import NO_WARMUP, SUBSTITUTIONS, WARMUP, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, failed, trained, within

SCHEMES = ("post-ln", "pre-ln", "resi-dual")
DEPTHS = ("6-6", "12-12")
SCHEDULES = {
    "warm-up, inverse root": (WARMUP, "inverse-root"),
    "inverse root": (NO_WARMUP, "inverse-root"),
    "linear": (NO_WARMUP, "linear"),
}
WITH, *WITHOUT = SCHEDULES


class ResidualTable5(Study):
    paper = "residual"
    title = "Warm-up and decay of the learning rate"
    substitutions = SUBSTITUTIONS[:2]

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "iwslt",
                scheme=scheme,
                depth=depth,
                rate=5e-4,
                warmup=warmup,
                decay=decay,
                labels={"schedule": name},
                seeds=FIVE_SEEDS,
            )
            for depth in DEPTHS
            for scheme in SCHEMES
            for name, (warmup, decay) in SCHEDULES.items()
            if (scheme, name) != ("post-ln", WITH)
        ]

    @claim("R-33", "Post-LN fails without warm-up under both decays", paper="failed four times")
    def post_fails(self, results: ResultTable) -> Verdict:
        return all_of(
            failed(f"{depth}, {schedule}", results.sample("trained", scheme="post-ln", depth=depth, schedule=schedule))
            for depth in DEPTHS
            for schedule in WITHOUT
        )

    @claim(
        "R-34",
        "Pre-LN trains without warm-up but loses about 3 points",
        paper="35.12 to 32.28 and 32.26; 35.18 to 31.82 and 31.85",
        remark="Xiong et al. lose nothing (X-18). Nguyen and Salazar 2019 find the same on small data, but a loss of "
        "quality on WMT; small GPTs still gain from a warm-up (Kosson et al. 2024).",
    )
    def pre_loses(self, results: ResultTable) -> Verdict:
        lost = [
            within(f"{depth}, {each}: BLEU lost", _bleu(results, "pre-ln", depth, WITH) - without, 1.5, 4.5)
            for depth in DEPTHS
            for each in WITHOUT
            for without in [_bleu(results, "pre-ln", depth, each)]
        ]
        return all_of([*_all_train(results, "pre-ln", DEPTHS), *lost])

    @claim("R-35", "6-6 ResiDual is at least as good without warm-up", paper="35.63 to 35.76 and 35.96")
    def residual_is_as_good(self, results: ResultTable) -> Verdict:
        before = _bleu(results, "resi-dual", "6-6", WITH)
        return all_of(
            above(f"{each}: BLEU gained", _bleu(results, "resi-dual", "6-6", each) - before, -0.2) for each in WITHOUT
        )

    @claim("R-36", "12-12 ResiDual trains without warm-up, slightly lower", paper="36.09 to 35.57 and 35.72")
    def deep_residual_trains(self, results: ResultTable) -> Verdict:
        before = _bleu(results, "resi-dual", "12-12", WITH)
        gained = [
            above(f"{each}: BLEU gained", _bleu(results, "resi-dual", "12-12", each) - before, -1.0) for each in WITHOUT
        ]
        return all_of([*_all_train(results, "resi-dual", ("12-12",)), *gained])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for depth in DEPTHS for scheme in SCHEMES}
        columns = {name: ("bleu", {"schedule": name}) for name in SCHEDULES}
        table = score_table(results, "BLEU by schedule", rows, columns, "scheme, layers")
        return [Exhibit("Table 5", "BLEU with and without warm-up.", tables=(table,))]


def _bleu(results: ResultTable, scheme: str, depth: str, schedule: str) -> Sample:
    return results.sample("bleu", scheme=scheme, depth=depth, schedule=schedule)


def _all_train(results: ResultTable, scheme: str, depths: tuple[str, ...]) -> list[Verdict]:
    """The runs without warm-up train."""
    return [
        trained(f"{depth}, {each}", results.sample("trained", scheme=scheme, depth=depth, schedule=each))
        for depth in depths
        for each in WITHOUT
    ]
