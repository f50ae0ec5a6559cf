"""BLEU of multilingual translation.

Xie et al. 2023, table 4: 18-18 layers on OPUS-100, out of English (EX), into English (XE) and both.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import Condition, score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, close, failed

DIRECTIONS = {"EX": "test EX", "XE": "test XE", "ALL": "test bleu"}
METHODS = (("post-ln", "18-18"), ("pre-ln", "18-18"), ("resi-dual", "18-18"), ("deep-norm", "36-36"))


class ResidualTable4(Study):
    paper = "residual"
    title = "BLEU of multilingual translation"
    substitutions = (
        SUBSTITUTIONS[0],
        "OPUS-100: short sentences in three pairs of embedded languages, marn in place of English",
        "100 layers of DeepNet: 36-36, width 32, 200 steps",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "opus",
                scheme=scheme,
                depth=depth,
                task="multilingual-translation",
                seeds=FIVE_SEEDS if scheme == "post-ln" else THREE_SEEDS,
                steps=200 if depth == "36-36" else 400,
                width=32 if depth == "36-36" else 64,
            )
            for scheme, depth in METHODS
        ]

    @claim(
        "R-31",
        "Multilingual, 18-18 layers: ResiDual beats pre-LN in both directions, post-LN fails",
        paper="28.7 33.4 31.0 against 27.9 32.8 30.3",
    )
    def both_directions(self, results: ResultTable) -> Verdict:
        beaten = [
            above(name, results.sample(quantity, scheme="resi-dual"), results.sample(quantity, scheme="pre-ln"))
            for name, quantity in DIRECTIONS.items()
        ]
        return all_of([failed("post-LN", results.sample("trained", scheme="post-ln")), *beaten])

    @claim("R-32", "18 ResiDual layers do the work of 100 DeepNet layers", paper="31.0 against 31.1")
    def work_of_hundred(self, results: ResultTable) -> Verdict:
        residual, deep = (results.sample(DIRECTIONS["ALL"], scheme=scheme) for scheme in ("resi-dual", "deep-norm"))
        return close("ALL", residual, deep, 0.3)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for scheme, depth in METHODS}
        columns: dict[str, tuple[str, Condition]] = {name: (quantity, {}) for name, quantity in DIRECTIONS.items()}
        table = score_table(results, "BLEU", rows, columns, "scheme, layers")
        return [Exhibit("Table 4", "BLEU out of the central language, into it, and of both.", tables=(table,))]
