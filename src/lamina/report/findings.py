"""Findings as pages and the terminal show them: the worst first, and checks that could not be made apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lamina.diagnosis.checks import CHECKS
from lamina.diagnosis.lacking import lacking
from lamina.diagnosis.measurement import MissingEvidence, NotMeasured
from lamina.diagnosis.results import Diagnosis, Finding, Severity
from lamina.formatting import count, printable
from lamina.report.labels import RemedyText, check_name, conditions, distinct_names, remedy_text
from lamina.report.tables import Table
from lamina.report.terms import Terms

SIGNS: dict[Severity, str] = {"failure": "✗", "warning": "!", "fine": "✓", "not measured": "–"}
"""From the worst severity to what could not be judged."""
LONGEST_TEXT = 2000


@dataclass(frozen=True)
class ShownFinding:
    """A finding and its remedies as text; `of` names model and stage where a list has findings of several."""

    severity: Severity
    sentence: str
    remedies: Sequence[RemedyText]
    of: str = ""
    check: str = ""
    figure: str = ""
    """The anchor of the figure that shows the evidence; empty where the page has none."""
    terms: Sequence[tuple[str, str]] = ()
    """The terms that appear for the first time, with their explanations."""

    @property
    def sign(self) -> str:
        return SIGNS[self.severity]


@dataclass(frozen=True)
class NotChecked:
    """Checks that could not be made for the same reason."""

    checks: tuple[str, ...]
    reason: str

    @property
    def names(self) -> str:
        return ", ".join(self.checks)


@dataclass(frozen=True)
class MissingMeasures:
    """Measures that could not be taken for the same reason."""

    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class NamedDiagnosis:
    """A diagnosis, with a name that no other diagnosis on the page has."""

    name: str
    diagnosis: Diagnosis

    @property
    def model(self) -> str:
        return self.diagnosis.model

    @property
    def conditions(self) -> str:
        return conditions(self.diagnosis)

    @property
    def findings(self) -> list[ShownFinding]:
        """The findings of the checks that could be made, worst first."""
        return shown_findings(self.diagnosis)

    @property
    def not_checked(self) -> list[NotChecked]:
        """Checks that could not be made; those whose measures lacked the same evidence are named together."""
        unwatched = lacking({"history"}) if self.diagnosis.spread_over == "steps" else []
        missing = {each.key: each for each in (*unwatched, *self.diagnosis.not_measured)}
        groups: dict[tuple[MissingEvidence, ...] | tuple[str, str], NotChecked] = {}
        for finding in self.diagnosis.findings:
            if finding.severity != "not measured":
                continue
            reads = CHECKS[finding.check].reads if finding.check in CHECKS else ()
            is_missing = bool(reads) and all(key in missing for key in reads)
            lacks = missing[reads[0]].lacks if is_missing else ()
            reason = missing[reads[0]].reason if is_missing else finding.sentence
            group = groups.setdefault(lacks or ("", reason), NotChecked((), reason))
            checks = dict.fromkeys((*group.checks, check_name(finding.check)))
            groups[lacks or ("", reason)] = NotChecked(tuple(checks), group.reason)
        return list(groups.values())

    @property
    def not_measured(self) -> list[MissingMeasures]:
        """Measures that could not be taken; those that lacked the same evidence are named together."""
        groups: dict[tuple[MissingEvidence, ...] | tuple[str, str], list[NotMeasured]] = {}
        for each in self.diagnosis.not_measured:
            groups.setdefault(each.lacks or ("", each.reason), []).append(each)
        return [MissingMeasures(tuple(each.key for each in group), group[0].reason) for group in groups.values()]

    @property
    def counts(self) -> str:
        """`2 failures, 1 warning, 3 fine, 1 not checked`."""
        found = Counter(finding.severity for finding in self.diagnosis.findings)
        numbers = [count(found[each], each) for each in ("failure", "warning") if found[each]]
        numbers += [f"{found['fine']} fine"] if found["fine"] else []
        numbers += [f"{found['not measured']} not checked"] if found["not measured"] else []
        return ", ".join(numbers) or "no findings"


def with_figures(findings: Sequence[ShownFinding], anchors: Mapping[str, str], terms: Terms) -> list[ShownFinding]:
    """The findings with links to their figures, given by measure, and with explanations of new terms."""
    shown = []
    for each in findings:
        reads = CHECKS[each.check].reads if each.check in CHECKS else ()
        figure = next((anchors[key] for key in reads if key in anchors), "")
        explained = terms.explain(each.sentence, *map(str, each.remedies)) if each.severity != "fine" else []
        shown.append(replace(each, figure=figure, terms=explained))
    return shown


def name_diagnoses(diagnoses: Sequence[Diagnosis]) -> list[NamedDiagnosis]:
    """Diagnoses with printable texts, under names that differ."""
    cleaned = [printable_diagnosis(each) for each in diagnoses]
    return [NamedDiagnosis(name, each) for name, each in zip(distinct_names(cleaned), cleaned, strict=True)]


def printable_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without characters that would hide or reorder the text around them."""

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            return printable(part, limit=LONGEST_TEXT)
        if isinstance(part, dict):
            return {key: clean(value) for key, value in part.items()}
        return [clean(each) for each in part] if isinstance(part, tuple | list) else part

    return Diagnosis.model_validate(clean(diagnosis.model_dump()))


def shown_findings(diagnosis: Diagnosis, of: str = "") -> list[ShownFinding]:
    """The findings of the checks that could be made, worst first."""
    judged = [each for each in diagnosis.findings if each.severity != "not measured"]
    judged.sort(key=lambda each: list(SIGNS).index(each.severity))
    own_model = bool(diagnosis.schemes)
    return [
        ShownFinding(
            each.severity,
            each.sentence,
            [remedy_text(remedy, own_model=own_model) for remedy in each.remedies],
            of,
            each.check,
        )
        for each in judged
    ]


def overview(
    findings: Mapping[str, Sequence[Finding]], caption: str = "The worst finding of each check"
) -> Table | None:
    """A row for each model, a column for each check that was made of any, and in it the worst severity."""
    every = [finding for each in findings.values() for finding in each]
    checks = list(dict.fromkeys(finding.check for finding in every if finding.severity != "not measured"))
    if not checks:
        return None
    rows = tuple((name, *(_worst(each, check) for check in checks)) for name, each in findings.items())
    return Table(caption, ("", *map(check_name, checks)), rows)


def _worst(findings: Sequence[Finding], check: str) -> str:
    found = {finding.severity for finding in findings if finding.check == check}
    return next((f"{sign}\N{NO-BREAK SPACE}{severity}" for severity, sign in SIGNS.items() if severity in found), "")
