"""The sizes of Admin's models.

Liu et al. 2020, table 4 and appendix D: shared embeddings and joint vocabularies of 10,000 (IWSLT), 37,000 (WMT En-De)
and about 44,000 units (WMT En-Fr).
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.formatting import short
from lamina.report.tables import Table
from lamina.studies.papers.exhibits import average_bleu, by_year
from lamina.studies.papers.parameter_counts import count_parameters
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, within

SIZES = (
    ("IWSLT De-En", "iwslt", "6-6", 37),
    ("WMT En-De", "base", "6-6", 63),
    ("WMT En-De", "base", "12-12", 107),
    ("WMT En-De", "base", "18-18", 151),
    ("WMT En-Fr", "wmt-en-fr", "6-6", 67),
    ("WMT En-Fr", "wmt-en-fr", "60-12", 262),
)
"""Data, preset, depth, and the paper's number of parameters in millions."""


WIDE = ("post-ln", "pre-ln")


class AdminTable4(Study):
    paper = "admin"
    title = "Sizes of the models"
    substitutions = (
        SUBSTITUTIONS[0],
        "WMT En-Fr: single clauses of 48 words of each kind, marn to selu; 60-12 layers: 30-6",
        "Published wider models: post-LN and pre-LN of 6-6 layers and width 128, with more parameters",
        "RAdam: Adam",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        deep = model_run(scale, "wmt-fr", scheme="admin", depth="60-12", rate=7e-4)
        wide = [model_run(scale, "wmt-fr", scheme=scheme, depth="6-6", rate=7e-4, width=128) for scheme in WIDE]
        return [deep, *wide]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        for data, preset, depth, _ in SIZES:
            encoder, decoder = map(int, depth.split("-"))
            millions = count_parameters(preset, "admin", (encoder, decoder)) / 1e6
            yield row("parameters in millions", millions, data=data, depth=depth)

    @claim("A-49", "The models have these sizes", paper="37 M; 63, 107 and 151 M; 67 and 262 M")
    def sizes(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"{data} {depth} ÷ {stated} M", _millions(results, data, depth) / stated, 0.98, 1.02)
            for data, _, depth, stated in SIZES
        )

    @claim("A-50", "A deep narrow Admin model beats published wider ones", paper="43.80 against 41.2 to 43.48")
    def beats_wider(self, results: ResultTable) -> Verdict:
        deep = average_bleu(results, "admin", "60-12")
        return all_of(above(f"BLEU, against {each}", deep, average_bleu(results, each, "6-6")) for each in WIDE)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple(
            (data, depth, f"{short(_millions(results, data, depth).mean, 4)} M", f"{stated} M")
            for data, _, depth, stated in SIZES
        )
        headings = ("data", "layers", "parameters", "paper")
        sizes = Table("parameters of Admin's models", headings, rows)
        scores = by_year(results, "BLEU by test set", ("60-12",), ("admin",))
        wide = by_year(results, "BLEU of wider models by test set", ("6-6",), WIDE)
        return [
            Exhibit("Table 4, sizes", "The paper's column of sizes.", tables=[sizes]),
            Exhibit("Table 4, BLEU", "A deep narrow model, and wider ones.", tables=[scores, wide]),
        ]


def _millions(results: ResultTable, data: str, depth: str) -> Sample:
    return results.sample("parameters in millions", data=data, depth=depth)
