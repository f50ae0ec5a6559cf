"""Dependency of each layer on each branch in 18-layer models, at initialisation and after training.

Liu et al. 2020, figure 8: Admin starts without the large shares of post-LN, and ends with larger ones than pre-LN.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn import Module

from lamina.diagnosis.measures.layer_dependency import shares
from lamina.diagnosis.recording.passes import Pass
from lamina.runs.run import Run
from lamina.studies.papers.admin_fig7 import mean_own_share, share_map
from lamina.studies.papers.dependency_shares import START, record_encoder
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.papers.trained_models import SUBSTITUTIONS, of_trained_models, translation_grid
from lamina.studies.papers.trained_stages import AFTER, stages_of
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

DEPTH = 18
TRAINED = ("pre-ln", "admin")
"""Post-LN does not train at this depth (B-01)."""


class AdminFig8(Study):
    paper = "admin"
    title = "Dependency of each layer on each branch, 18 layers"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[::2], "RAdam: Adam"))

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", TRAINED, (f"{DEPTH}-{DEPTH}",))

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        depth = context.choose(micro=2, otherwise=DEPTH)
        for scheme in ("post-ln", *TRAINED):
            subject = initial_subject(context, scheme, (depth, 1))
            for seed in range(1, context.choose(micro=3, otherwise=5) + 1):
                for found in feed_forward_shares(subject.build(seed), subject.passes[0]):
                    yield found.model_copy(
                        update={"seed": seed, "labels": {**found.labels, "scheme": scheme, "stage": START}}
                    )

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        _, stage = stages_of(run)
        for found in feed_forward_shares(stage.model, stage.passes[0]):
            yield found.model_copy(update={"labels": {**found.labels, "stage": stage.name}})

    @claim(
        "A-29",
        "Admin at the start has no over-large shares; after training it has larger ones than pre-LN",
        paper="figure 8",
        remark="Judged by the feed-forward branches.",
    )
    def shares_of_admin(self, results: ResultTable) -> Verdict:
        largest = {
            scheme: results.reduce(max, "i", "β of the own branch", scheme=scheme, stage=START)
            for scheme in ("admin", "post-ln")
        }
        admin, pre = (mean_own_share(results, scheme, AFTER) for scheme in ("admin", "pre-ln"))
        return all_of(
            [
                below("largest β_ii at the start, Admin − post-LN", largest["admin"] - largest["post-ln"], 1e-3),
                above("mean β_ii after training, Admin", admin, pre),
            ]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        maps = {
            f"18-layer {scheme}, {stage}": share_map(results, scheme, stage)
            for scheme in ("post-ln", *TRAINED)
            for stage in (START, AFTER)
            if results.where("β", scheme=scheme, stage=stage)
        }
        caption = (
            "β_ij in the encoder: rows are the outputs of the layers, columns the feed-forward branches of the layers. "
            "Post-LN does not train at this depth."
        )
        return [Exhibit("Figure 8", caption, maps=maps)]


def feed_forward_shares(model: Module, run: Pass) -> Iterator[ResultRow]:
    """β_ij of the feed-forward branches j of layers at the outputs i of layers, both from 1."""
    for i, line in enumerate(list(shares(record_encoder(model, run)))[1::2], start=1):
        yield row("β of the own branch", line[-1], i=i)
        for j, share in enumerate(line[2::2], start=1):
            yield row("β", share, i=i, j=j)
