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
from lamina.runs.run import Run
from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.papers.trained_models import STEPS, SUBSTITUTIONS, model_run, of_trained_models
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, at_least, below, close, failed

STACKS = ("encoder", "decoder")
FORMS = ("parameter", "rescaled")
PRECISIONS = ("fp32", "fp16")
SKIPPED = "skipped steps"


class AdminFold(Study):
    paper = "admin"
    title = "Admin without ω"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[:2], "RAdam: Adam", "in fp16 width 32, 200 steps"))

    def runs(self, scale: str) -> list[StudyRun]:
        return [_run(scale, form, precision) for precision in PRECISIONS for form in FORMS]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        depth = context.choose(micro=2, otherwise=6)
        subject = initial_subject(context, "admin", (depth, depth))
        for seed in (1, 2, 3):
            for stack, difference in fold_differences(subject.build(seed), subject.passes[0]).items():
                yield row("difference", difference, seed, stack=stack)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """The number of steps that were skipped because gradients overflowed."""
        if run.config.train.precision == "fp16":
            yield row(SKIPPED, sum(bool(each.get("skipped")) for each in run.folder.metrics.read()))

    @claim("A-30", "Admin folds into Post-LN without change", paper="exact")
    def folds(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{stack}: largest difference", results.sample("difference", stack=stack), 1e-5) for stack in STACKS
        )

    @claim("A-31", "Scaling the start weights instead of keeping ω is as good on IWSLT", paper="said, no number")
    def as_good(self, results: ResultTable) -> Verdict:
        kept, rescaled = (results.sample("bleu", form=form, precision="fp32") for form in FORMS)
        return close("BLEU, rescaled", rescaled, kept, 0.3)

    @claim("A-32", "But unstable in half precision", paper="said, no number")
    def unstable(self, results: ResultTable) -> Verdict:
        """More steps are skipped, or training fails."""
        half = results.where(precision="fp16")
        kept, rescaled = (half.sample(SKIPPED, form=form) for form in FORMS)
        return at_least(
            1,
            [
                above(f"{SKIPPED}, rescaled", rescaled, kept, better="lower"),
                failed("rescaled", half.sample("trained", form="rescaled")),
            ],
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple((stack, short(results.sample("difference", stack=stack).mean)) for stack in STACKS)
        table = Table("folded against Admin", ("stack", "largest difference of the outputs"), rows)
        caption = (
            "In fp32, after all ω, gains and biases were moved at random, as training would. The paper has no table."
        )
        trained = score_table(
            results,
            "Admin on IWSLT, 6-6 layers",
            {f"{form}, {each}": {"form": form, "precision": each} for each in PRECISIONS for form in FORMS},
            {"BLEU": ("bleu", {}), "validation loss": ("validation loss", {}), SKIPPED: (SKIPPED, {})},
            "ω, precision",
        )
        return [
            Exhibit("Outputs before and after folding", caption, tables=[table]),
            Exhibit("Start weights scaled instead of ω", "The paper has no table.", tables=[trained]),
        ]


def _run(scale: str, form: str, precision: str) -> StudyRun:
    """Admin with ω, or with scaled start weights; in fp16 a smaller model of which every step is logged."""
    half = precision == "fp16"
    return model_run(
        scale,
        "iwslt",
        scheme="admin",
        depth="6-6",
        rate=7e-4,
        model={"residual_options": {"omega_form": form}} if form != "parameter" else None,
        train={"precision": precision, "log_every": 1} if half else None,
        steps=200 if half else STEPS,
        width=32 if half else 64,
        labels={"form": form, "precision": precision},
        seeds=FIVE_SEEDS if half and form == "rescaled" else THREE_SEEDS,
    )


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
