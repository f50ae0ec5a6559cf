"""ReZero, Fixup and LookLinear at 18-18 layers, in two precisions, with and without dropout.

Liu et al. 2020, section 5: all three diverge; half precision and dropout are said to be the cause.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import Condition, score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, failed, trained

SCHEMES = ("re-zero", "fixup", "look-linear")
CONDITIONS = (("fp32", 0.0), ("fp32", 0.1), ("fp16", 0.0), ("fp16", 0.1))
COUNTED = (CONDITIONS[0], CONDITIONS[-1])
"""The conditions that the claims are about; of the others one seed is shown."""


class AdminInits(Study):
    paper = "admin"
    title = "ReZero, Fixup and LookLinear at 18-18 layers"
    substitutions = (*SUBSTITUTIONS[::2], "RAdam: Adam", "Width 32, 200 steps; half precision is CPU autocast")

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "wmt",
                scheme=scheme,
                depth="18-18",
                steps=200,
                width=32,
                model={"dropout": dropout},
                train={"precision": precision} if precision != "fp32" else None,
                labels={"precision": precision, "dropout": dropout},
                seeds=FIVE_SEEDS if (precision, dropout) in COUNTED else (1,),
            )
            for scheme in SCHEMES
            for precision, dropout in CONDITIONS
            if scheme != "look-linear" or (precision, dropout) == ("fp16", 0.1)
        ]

    @claim("A-44", "18-18 layers: ReZero, Fixup and LookLinear diverge", paper="failed three times")
    def diverge(self, results: ResultTable) -> Verdict:
        return all_of(failed(scheme, _status(results, scheme, "fp16", 0.1)) for scheme in SCHEMES)

    @claim("A-45", "Half precision and dropout are what upsets Fixup and ReZero", paper="said, no number")
    def cause(self, results: ResultTable) -> Verdict:
        parts = []
        for scheme in ("re-zero", "fixup"):
            parts.append(trained(f"{scheme}, fp32, no dropout", _status(results, scheme, "fp32", 0.0)))
            parts.append(failed(f"{scheme}, fp16, dropout", _status(results, scheme, "fp16", 0.1)))
        return all_of(parts)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {scheme: {"scheme": scheme} for scheme in SCHEMES}
        columns: dict[str, tuple[str, Condition]] = {
            f"{precision}, dropout {dropout:g}": ("validation loss", {"precision": precision, "dropout": dropout})
            for precision, dropout in CONDITIONS
        }
        return [
            Exhibit(
                "Initialisations", "18-18 layers.", tables=(score_table(results, "Validation loss", rows, columns),)
            )
        ]


def _status(results: ResultTable, scheme: str, precision: str, dropout: float) -> Sample:
    return results.sample("trained", scheme=scheme, precision=precision, dropout=dropout)
