"""BLEU of post-LN, pre-LN and B2T by depth and test year.

Takase et al. 2023, table 1: B2T is as good as post-LN at 6-6 layers, and better than pre-LN where post-LN fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.runs.run import Run
from lamina.studies.papers.exhibits import average_bleu, by_year, year_bleu
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, close, failed
from lamina.tasks.base import MAX_TOKENS
from lamina.tasks.metrics import bleu
from lamina.tasks.sequence_to_sequence import SequenceToSequence

SCHEMES = ("post-ln", "pre-ln", "b2t")
DEPTHS = ("6-6", "18-18", "60-12")
SAME_BASELINES = (
    "The baselines of table 3 of ResiDual equal those of tables 1 and 5 of B2T in 13 of 13 numbers: one measurement, "
    "not two."
)


class B2tTable1(Study):
    paper = "b2t"
    title = "BLEU of post-LN, pre-LN and B2T"
    substitutions = SUBSTITUTIONS

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, DEPTHS)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """BLEU of one output with and without the tokenisation of sacreBLEU."""
        task = run.task
        assert isinstance(task, SequenceToSequence)
        hypotheses, references = task.generate(run.model, "test/2014", MAX_TOKENS)  # type: ignore[arg-type]
        yield row("sacreBLEU", bleu(hypotheses, references, "bleu").value)
        yield row("tokenised BLEU", bleu(hypotheses, references, "bleu-tok").value)

    @claim(
        "B-12",
        "6-6 layers: post-LN beats pre-LN on every test year",
        paper="26.59 against 26.10",
        remark=SAME_BASELINES,
    )
    def post_beats_pre(self, results: ResultTable) -> Verdict:
        return _on_every_year(results, "post-ln", "pre-ln", "6-6")

    @claim("B-13", "6-6 layers: B2T beats pre-LN on every test year", paper="26.53 against 26.10")
    def b2t_beats_pre(self, results: ResultTable) -> Verdict:
        return _on_every_year(results, "b2t", "pre-ln", "6-6")

    @claim("B-14", "6-6 layers: B2T equals post-LN", paper="26.53, 26.59")
    def b2t_equals_post(self, results: ResultTable) -> Verdict:
        post = average_bleu(results, "post-ln", "6-6")
        return close("average BLEU", average_bleu(results, "b2t", "6-6"), post, 0.3)

    @claim("B-15", "18-18 layers: B2T beats pre-LN on every test year", paper="27.30 against 26.57")
    def b2t_beats_deep_pre(self, results: ResultTable) -> Verdict:
        return _on_every_year(results, "b2t", "pre-ln", "18-18")

    @claim("B-16", "60-12 layers: post-LN fails, B2T beats pre-LN", paper="27.33 against 26.42")
    def deepest(self, results: ResultTable) -> Verdict:
        b2t, pre = (average_bleu(results, scheme, "60-12") for scheme in ("b2t", "pre-ln"))
        status = results.sample("trained", scheme="post-ln", depth="60-12")
        return all_of([failed("post-LN", status), above("average BLEU", b2t, pre)])

    @claim("B-17", "Depth pays for B2T", paper="27.30 against 26.53")
    def depth_pays(self, results: ResultTable) -> Verdict:
        deep, shallow = (average_bleu(results, "b2t", depth) for depth in ("18-18", "6-6"))
        return above("average BLEU, 18-18", deep, shallow)

    @claim("B-39", "SacreBLEU is lower than tokenised BLEU on the same output", paper="said, no number")
    def tokenisation(self, results: ResultTable) -> Verdict:
        def score(quantity: str, scheme: str) -> Sample:
            return results.sample(quantity, scheme=scheme, depth="6-6")

        return all_of(
            below(f"{scheme}: sacreBLEU", score("sacreBLEU", scheme), score("tokenised BLEU", scheme), better="higher")
            for scheme in ("pre-ln", "b2t")
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        table = by_year(results, "BLEU by test year", DEPTHS, SCHEMES)
        return [Exhibit("Table 1", "BLEU on seven test sets; failed: no better than a unigram model.", tables=(table,))]


def _on_every_year(results: ResultTable, better: str, worse: str, depth: str) -> Verdict:
    first, second = (year_bleu(results, scheme, depth) for scheme in (better, worse))
    return all_of(above(f"BLEU {year}", first[year], second[year]) for year in first)
