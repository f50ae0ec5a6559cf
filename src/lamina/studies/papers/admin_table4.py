"""The sizes of Admin's models.

Liu et al. 2020, table 4 and appendix D: shared embeddings and joint vocabularies of 10,000 (IWSLT), 37,000 (WMT En-De)
and about 44,000 units (WMT En-Fr).
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.formatting import short
from lamina.report.tables import Table
from lamina.studies.papers.parameter_counts import count_parameters
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, all_of, within

SIZES = (
    ("IWSLT De-En", "iwslt", "6-6", 37),
    ("WMT En-De", "base", "6-6", 63),
    ("WMT En-De", "base", "12-12", 107),
    ("WMT En-De", "base", "18-18", 151),
    ("WMT En-Fr", "wmt-en-fr", "6-6", 67),
    ("WMT En-Fr", "wmt-en-fr", "60-12", 262),
)
"""Data, preset, depth, and the paper's number of parameters in millions."""


class AdminTable4(Study):
    paper = "admin"
    title = "Sizes of the models"

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
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

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple(
            (data, depth, f"{short(_millions(results, data, depth).mean, 4)} M", f"{stated} M")
            for data, _, depth, stated in SIZES
        )
        headings = ("data", "layers", "parameters", "paper")
        caption = "The paper's column of sizes; its BLEU scores need trained models of this size."
        return [Exhibit("Table 4, sizes", caption, tables=[Table("parameters of Admin's models", headings, rows)])]


def _millions(results: ResultTable, data: str, depth: str) -> Sample:
    return results.sample("parameters in millions", data=data, depth=depth)
