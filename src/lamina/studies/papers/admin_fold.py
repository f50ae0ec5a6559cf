"""Folding an Admin model into plain post-LN.

Liu et al. 2020, section 4.3 and appendix C: after training ω can be removed without changing the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lamina.diagnosis.recording.own import recording
from lamina.diagnosis.recording.passes import Pass
from lamina.formatting import short
from lamina.model.transformer import Transformer
from lamina.report.tables import Table
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, all_of, below

STACKS = ("encoder", "decoder")


class AdminFold(Study):
    paper = "admin"
    title = "Admin without ω"
    substitutions = (SUBSTITUTION,)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        depth = context.choose(micro=2, otherwise=6)
        subject = initial_subject(context, "admin", (depth, depth))
        for seed in (1, 2, 3):
            for stack, difference in fold_differences(subject.build(seed), subject.passes[0]).items():
                yield row("difference", difference, seed, stack=stack)

    @claim("A-30", "Admin folds into Post-LN without change", paper="exact")
    def folds(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{stack}: largest difference", results.sample("difference", stack=stack), 1e-5) for stack in STACKS
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple((stack, short(results.sample("difference", stack=stack).mean)) for stack in STACKS)
        table = Table("folded against Admin", ("stack", "largest difference of the outputs"), rows)
        caption = (
            "In fp32, after all ω, gains and biases were moved at random, as training would. The paper has no table."
        )
        return [Exhibit("Outputs before and after folding", caption, tables=[table])]


def fold_differences(model: torch.nn.Module, run: Pass) -> dict[str, float]:
    """The largest difference between the outputs of a model and of the folded one, by stack."""
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for vector in (each for each in model.parameters() if each.dim() == 1):
            vector.add_(torch.randn_like(vector), alpha=0.1)
    before, after = _outputs(model, run), _outputs(model.fold(), run)
    return {stack: (before[stack] - after[stack]).abs().max().item() for stack in before}


def _outputs(model: torch.nn.Module, run: Pass) -> dict[str, torch.Tensor]:
    with recording(model) as found, torch.no_grad():
        run(model)
    return {each.name: each.output.value for each in found.stacks}
