"""Post-LN encoders with pre-LN decoders: their gradients do not vanish, yet they diverge.

Liu et al. 2020, table 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.formatting import short
from lamina.report.tables import Table
from lamina.studies.papers.exhibits import cell
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.papers.relative_gradients import first_to_last, measure_relative_gradients
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, of_trained_models
from lamina.studies.result_table import Label, Missing, ResultRow, ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, failed, trained

PAIRS = (("post-ln", "post-ln"), ("post-ln", "pre-ln"), ("pre-ln", "pre-ln"))
VANISHING = 0.3
"""The gradient after the first sub-layer relative to the last, below which it vanishes, as in A-08."""


class AdminTable1(Study):
    paper = "admin"
    title = "Post-LN encoders with pre-LN decoders, 18-18"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[::2], "RAdam: Adam"))

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(scale, "wmt", scheme=_as_one(pair), depth="18-18", labels=_labels(pair), seeds=FIVE_SEEDS)
            for pair in PAIRS
        ]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        depth = context.choose(micro=3, otherwise=18)
        for pair in PAIRS:
            subject = initial_subject(context, pair, (depth, depth))
            for seed in range(1, context.choose(micro=3, otherwise=10) + 1):
                yield from measure_relative_gradients(subject, seed, encoder=pair[0], decoder=pair[1])

    @claim("A-11", "The gradients of a Post-LN encoder with a Pre-LN decoder do not vanish", paper="table 1, said")
    def hybrid_keeps_gradients(self, results: ResultTable) -> Verdict:
        ratio = first_to_last(results, "decoder", encoder="post-ln", decoder="pre-ln")
        return above("decoder: g(first) ÷ g(last)", ratio, 0.8)

    @claim(
        "A-12",
        "Yet it diverges, so vanishing is not the cause",
        paper="failed, failed, trained",
        remark="Failure is a rate over seeds; B2T trains post-LN at 12-12 layers (B-30).",
    )
    def diverges(self, results: ResultTable) -> Verdict:
        post, hybrid, pre = (results.sample("trained", **_labels(pair)) for pair in PAIRS)
        return all_of([failed("post/post", post), failed("post/pre", hybrid), trained("pre/pre", pre)])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = []
        for encoder, decoder in PAIRS:
            ratios = [
                first_to_last(results, stack, encoder=encoder, decoder=decoder) for stack in ("encoder", "decoder")
            ]
            vanishes = any(each.mean < VANISHING for each in ratios)
            shown = [short(each.mean) for each in ratios]
            status = _validation_loss(results, (encoder, decoder))
            rows.append((f"{encoder}, {decoder}", "vanishing" if vanishes else "not vanishing", status, *shown))
        headings = (
            "encoder, decoder",
            "gradient",
            "validation loss",
            "encoder: g(first) ÷ g(last)",
            "decoder: g(first) ÷ g(last)",
        )
        caption = "In the stored text of the paper all three rows read “vanishing”; meant is the first alone."
        return [Exhibit("Table 1", caption, tables=[Table("18-18 models", headings, tuple(rows))])]


def _as_one(pair: tuple[str, str]) -> str | tuple[str, str]:
    """One scheme for both stacks is written once, as other studies do, so that they share the runs."""
    return pair[0] if pair[0] == pair[1] else pair


def _labels(pair: tuple[str, str]) -> dict[str, Label]:
    return {"encoder": pair[0], "decoder": pair[1]}


def _validation_loss(results: ResultTable, pair: tuple[str, str]) -> str:
    try:
        return cell(results.sample("validation loss", **_labels(pair)))
    except Missing:
        return "–"
