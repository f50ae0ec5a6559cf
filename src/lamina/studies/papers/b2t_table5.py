"""BLEU of B2T beside other methods for deep models.

Takase et al. 2023, table 5: DLCL, T-Fixup, DeepNet and Admin with B2T, at 6-6 and 18-18 layers.
"""

from __future__ import annotations

from lamina.studies.papers.b2t_table1 import SAME_BASELINES
from lamina.studies.papers.exhibits import average_bleu, by_year
from lamina.studies.papers.trained_models import NO_WARMUP, SUBSTITUTIONS, model_run, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, failed, trained

OTHERS = ("dlcl", "t-fixup", "deep-norm", "admin")
DEPTHS = ("6-6", "18-18")


class B2tTable5(Study):
    paper = "b2t"
    title = "BLEU of B2T beside other methods"
    substitutions = (*SUBSTITUTIONS, "T-Fixup's own settings: half of the common learning rate, no warm-up")

    def runs(self, scale: str) -> list[StudyRun]:
        own = [
            model_run(
                scale,
                "wmt",
                scheme="t-fixup",
                depth=depth,
                rate=5e-4,
                warmup=NO_WARMUP,
                labels={"settings": "own"},
                seeds=FIVE_SEEDS,
            )
            for depth in DEPTHS
        ]
        common = model_run(
            scale, "wmt", scheme="t-fixup", depth="18-18", labels={"settings": "common"}, seeds=FIVE_SEEDS
        )
        plain = ("b2t", *(scheme for scheme in OTHERS if scheme != "t-fixup"))
        return [*translation_grid(scale, "wmt", plain, DEPTHS, counted=plain), *own, common]

    @claim(
        "B-25",
        "6-6 layers: B2T has the best average of five methods",
        paper="26.53; 26.52 26.43 26.38 26.49",
        remark=SAME_BASELINES,
    )
    def best_of_five(self, results: ResultTable) -> Verdict:
        return _best(results, "6-6")

    @claim("B-26", "18-18 layers: likewise, and all five train", paper="27.30; 26.90 26.94 27.13 26.86")
    def best_of_five_deep(self, results: ResultTable) -> Verdict:
        own = {scheme: {"settings": "own"} if scheme == "t-fixup" else {} for scheme in ("b2t", *OTHERS)}
        status = [results.sample("trained", scheme=scheme, depth="18-18", **more) for scheme, more in own.items()]
        all_train = [trained(scheme, each) for scheme, each in zip(own, status, strict=True)]
        return all_of([_best(results, "18-18"), *all_train])

    @claim("B-29", "T-Fixup diverges with the common hyper-parameters", paper="said, no number")
    def t_fixup(self, results: ResultTable) -> Verdict:
        status = {
            settings: results.sample("trained", scheme="t-fixup", depth="18-18", settings=settings)
            for settings in ("common", "own")
        }
        return all_of([failed("common settings", status["common"]), trained("own settings", status["own"])])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        shown = ResultTable(row for row in results if row.labels.get("settings") != "common")
        table = by_year(shown, "BLEU by test year", DEPTHS, (*OTHERS, "b2t"))
        return [Exhibit("Table 5", "BLEU on seven test sets.", tables=(table,))]


def _best(results: ResultTable, depth: str) -> Verdict:
    b2t = average_bleu(results, "b2t", depth)
    own = {scheme: {"settings": "own"} if scheme == "t-fixup" else {} for scheme in OTHERS}
    return all_of(
        above(f"B2T against {scheme}", b2t, average_bleu(results, scheme, depth, **more))
        for scheme, more in own.items()
    )
