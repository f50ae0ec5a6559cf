"""Which method has which fault: the checks of a diagnosis on 18-18 models at initialisation.

Xie et al. 2023, table 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamina.diagnosis.checks.base import CheckEvidence
from lamina.diagnosis.checks.collapse import Collapse
from lamina.diagnosis.checks.vanishing import Vanishing
from lamina.diagnosis.examine import conclude
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.measures.hidden_change import HiddenChange
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.results import Finding
from lamina.diagnosis.subject import Subject
from lamina.formatting import short
from lamina.report.tables import Table
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext

SCHEMES = ("post-ln", "pre-ln", "resi-dual")
FAULTS = {"vanishing": ("gradient vanishing", Vanishing.Thresholds().warning)}
FAULTS |= {"collapse": ("representation collapse", Collapse.Thresholds().warning)}
"""The paper's name of the fault that each check finds, and the value below which it does."""


class ResidualTable1(Study):
    paper = "residual"
    title = "Which method has which fault"
    substitutions = (SUBSTITUTION,)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        depth = context.choose(micro=3, otherwise=18)
        for scheme in SCHEMES:
            subject = initial_subject(context, scheme, (depth, depth))
            for seed in (1, 2, 3):
                for finding in find_faults(subject, seed):
                    place = {"scheme": scheme, "check": finding.check, "stack": str(finding.location.stack)}
                    yield row("value of the check", finding.value, seed, **place)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple((scheme, *(_cell(results, scheme, check) for check in FAULTS)) for scheme in SCHEMES)
        headings = ("method", *(name for name, _ in FAULTS.values()))
        caption = (
            "“yes”: the method has the fault in at least one stack of an 18-18 model at initialisation. Vanishing: the "
            "gradient of the weakest layer ÷ that of the last is below 0.3. Collapse: the last third of the sub-layers "
            "changes the stream by less than 0.3 of what the first third does. In the stored text of the paper Post-LN "
            "has both faults; meant is vanishing alone."
        )
        table = Table("faults by method, and the value of the worst stack", headings, rows)
        return [Exhibit("Table 1", caption, tables=[table])]


def find_faults(subject: Subject, seed: int) -> list[Finding]:
    """The findings of the two checks for each stack of one seed's model."""
    record, _ = record_pass(subject.build(seed), subject.passes[0])
    evidence = Evidence(record=record, gradients=record.gradients)
    measured = CheckEvidence(conclude([GradientByLayer().take(evidence), HiddenChange().take(evidence)]))
    return [
        finding
        for check in (Vanishing(), Collapse())
        for finding in check.judge(measured, check.Thresholds())  # type: ignore[arg-type]
    ]


def _cell(results: ResultTable, scheme: str, check: str) -> str:
    stacks = results.along("stack", "value of the check", scheme=scheme, check=check)
    name, worst = min(((str(stack), sample.mean) for stack, sample in stacks.items()), key=lambda each: each[1])
    return f"{'yes' if worst < FAULTS[check][1] else 'no'} ({name} {short(worst)})"
