"""The page of a diagnosis, or of several side by side: verdicts first, then the pictures with their reading.

`save` writes it as HTML, as Markdown, or as the numbers themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lamina import residual
from lamina.diagnosis.results import Diagnosis, Verdict
from lamina.errors import UserError
from lamina.formatting import count
from lamina.report.figures.exhibit import exhibits
from lamina.report.figures.svg import printable
from lamina.report.pages.page import form_of, render, write_text
from lamina.report.pages.tables import Table
from lamina.residual.card import Card, card

Severity = Literal["failure", "warning", "fine"]
SEVERITIES: tuple[Severity, ...] = ("failure", "warning", "fine")
SIGNS = {"failure": "✗", "warning": "!", "fine": "✓"}


def save(diagnoses: Sequence[Diagnosis], file: Path) -> None:
    """Write `file`, in the form that its ending names: .html, .md or .json."""
    if not diagnoses:
        raise UserError(f"{file}: there is no diagnosis to report")
    form = form_of(file, others=("json",))
    write_text(file, _numbers(diagnoses) if form == "json" else page(diagnoses, form))


def page(diagnoses: Sequence[Diagnosis], form: str = "html") -> str:
    """The text of the page, as `html` or `md`."""
    diagnoses = [readable(each) for each in diagnoses]
    names = told_apart(diagnoses)
    looked_at = [Looked(name, each) for name, each in zip(names, diagnoses, strict=True)]
    shown = exhibits([(each.name, each.diagnosis.schemes, each.diagnosis.measures) for each in looked_at])
    return render(
        "diagnosis",
        form,
        title=f"Diagnosis: {names[0]}" if len(names) == 1 else f"Diagnosis of {len(names)} models",
        looked_at=looked_at,
        overview=overview({each.name: each.diagnosis.verdicts for each in looked_at}) if len(names) > 1 else None,
        exhibits=shown,
        skipped=_skipped(looked_at, {exhibit.measure.key: exhibit.measure.title for exhibit in shown}),
        cards=cards(scheme for each in diagnoses for scheme in each.schemes),
        signs=SIGNS,
    )


def readable(diagnosis: Diagnosis) -> Diagnosis:
    """The same with all its texts free of signs that would turn or hide their surroundings."""

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            return printable(part, limit=2000)
        if isinstance(part, dict):
            return {clean(key): clean(value) for key, value in part.items()}
        return [clean(each) for each in part] if isinstance(part, tuple | list) else part

    return Diagnosis.model_validate(clean(diagnosis.model_dump()))


@dataclass(frozen=True)
class Looked:
    """A diagnosis under the name it has on this page."""

    name: str
    diagnosis: Diagnosis

    @property
    def verdicts(self) -> list[Verdict]:
        return sorted(self.diagnosis.verdicts, key=lambda verdict: SEVERITIES.index(verdict.severity))

    @property
    def conclusion(self) -> str:
        """`2 failures, 1 warning, 3 fine`."""
        found = Counter(verdict.severity for verdict in self.diagnosis.verdicts)
        told = [
            f"{found['fine']} fine" if each == "fine" else count(found[each], each)
            for each in SEVERITIES
            if found[each]
        ]
        return ", ".join(told) or "no verdict"

    @property
    def circumstances(self) -> str:
        """`at the start, mean and standard deviation over 5 seeds`."""
        step, repeats = self.diagnosis.step, self.diagnosis.repeats
        if self.diagnosis.spread_over == "steps":
            return "never watched" if step is None else f"watched at {count(repeats, 'step')}, last at step {step:,}"
        noun = self.diagnosis.spread_over.removesuffix("es" if self.diagnosis.spread_over == "batches" else "s")
        unknown = "as it stands" if self.diagnosis.spread_over == "batches" else "at the start"
        when = unknown if step is None else f"after {step:,} steps"
        return f"{when}, {'mean and standard deviation over ' if repeats > 1 else 'on '}{count(repeats, noun)}"


def told_apart(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """The names, with the time or a number where several are the same."""
    names = [each.name for each in diagnoses]
    if len(set(names)) < len(names):
        names = [_at_its_time(each) for each in diagnoses]
    seen: Counter[str] = Counter()
    apart = []
    for name in names:
        seen[name] += 1
        apart.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return apart


def _at_its_time(diagnosis: Diagnosis) -> str:
    if diagnosis.spread_over == "steps":
        return f"{diagnosis.name} in training"
    return diagnosis.name if diagnosis.step is None else f"{diagnosis.name}, step {diagnosis.step:,}"


def overview(verdicts: dict[str, tuple[Verdict, ...]]) -> Table | None:
    """A row per model, a column per kind of verdict, and in it the worst of them."""
    kinds = list(dict.fromkeys(verdict.kind for each in verdicts.values() for verdict in each))
    if not kinds:
        return None
    rows = []
    for name, each in verdicts.items():
        worst = [min((SEVERITIES.index(v.severity) for v in each if v.kind == kind), default=None) for kind in kinds]
        cells = ("–" if at is None else f"{SIGNS[SEVERITIES[at]]} {SEVERITIES[at]}" for at in worst)
        rows.append((name, *cells))
    return Table("The worst verdict of each kind", ("", *kinds), tuple(rows))


def cards(schemes: Iterable[str]) -> list[Card]:
    """Of every scheme that is known here, once; a diagnosis may come from a machine that knows others."""
    known = {scheme.name: scheme for scheme in residual.schemes()}
    return [card(known[name]) for name in dict.fromkeys(schemes) if name in known]


def _skipped(looked_at: Sequence[Looked], titles: dict[str, str]) -> Table | None:
    rows = tuple(
        (titles.get(skipped.key, skipped.key.replace("-", " ")), each.name, skipped.reason)
        for each in looked_at
        for skipped in each.diagnosis.skipped
    )
    return Table("", ("quantity", "model", "reason"), rows) if rows else None


def _numbers(diagnoses: Sequence[Diagnosis]) -> str:
    """One diagnosis as `Diagnosis.read` wants it; several as a list of them."""
    texts = [each.model_dump_json(indent=1) for each in diagnoses]
    return texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]"
