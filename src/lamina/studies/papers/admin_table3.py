"""ReZero beside pre-LN.

Liu et al. 2020, table 3: ReZero costs one to two points, with norms less.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

SCHEMES = ("re-zero", "re-zero-post-ln", "post-ln", "pre-ln", "admin")


class AdminTable3(Study):
    paper = "admin"
    title = "ReZero beside pre-LN"
    substitutions = (*SUBSTITUTIONS[:2], "RAdam: Adam")

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "iwslt", SCHEMES, ("6-6",), rate=7e-4)

    @claim("A-46", "ReZero costs one to two points", paper="33.67 ± 0.14, 34.67 ± 0.08 against 35.50")
    def costs(self, results: ResultTable) -> Verdict:
        zero, with_norms, pre = (
            results.sample("bleu", scheme=scheme) for scheme in ("re-zero", "re-zero-post-ln", "pre-ln")
        )
        return all_of(
            [below("ReZero − pre-LN", zero - pre, -0.5), below("with norms − pre-LN", with_norms - pre, -0.3)]
        )

    @claim("A-47", "Norms help ReZero", paper="34.67 against 33.67")
    def norms_help(self, results: ResultTable) -> Verdict:
        zero, with_norms = (results.sample("bleu", scheme=scheme) for scheme in ("re-zero", "re-zero-post-ln"))
        return above("BLEU with norms", with_norms, zero)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {scheme: {"scheme": scheme} for scheme in SCHEMES}
        table = score_table(results, "BLEU", rows, {"BLEU": ("bleu", {}), "validation loss": ("validation loss", {})})
        return [Exhibit("Table 3", "BLEU on IWSLT, 6-6 layers.", tables=(table,))]
