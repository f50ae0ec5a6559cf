"""The page of a diagnosis, or of several side by side: findings first, then the figures with their captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lamina import residual
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.report.figures.section import figure_sections
from lamina.report.findings import NamedDiagnosis, name_diagnoses, overview, with_figures
from lamina.report.headline import changes, headline, health_strips, model_facts
from lamina.report.labels import check_name
from lamina.report.pages.page import form_of, render, write_text
from lamina.report.tables import Table
from lamina.report.terms import Terms
from lamina.residual.card import Card, card


def save_diagnoses(diagnoses: Sequence[Diagnosis], file: Path) -> None:
    """Write the page as .html or .md, or the numbers as .json."""
    if not diagnoses:
        raise UserError(f"{file}: there is no diagnosis to report")
    form = form_of(file, others=("json",))
    write_text(file, _numbers(diagnoses) if form == "json" else diagnosis_page(diagnoses, form))


def diagnosis_page(diagnoses: Sequence[Diagnosis], form: str = "html") -> str:
    """The text of the page, as `html` or `md`."""
    models = name_diagnoses(diagnoses)
    sections = figure_sections([(each.name, each.diagnosis.schemes, each.diagnosis.measurements) for each in models])
    anchors = {section.about.key: section.anchor for section in reversed(sections)}
    terms = Terms()
    findings = {each.name: with_figures(each.findings, anchors, terms) for each in models}
    return render(
        "diagnosis",
        form,
        title=_title([each.diagnosis.name for each in models]),
        models=models,
        findings=findings,
        verdicts={each.name: headline(each.diagnosis) for each in models},
        facts={each.name: model_facts(each.diagnosis.facts) for each in models},
        strips={each.name: health_strips(each.diagnosis) for each in models},
        changes=_changes(models) if len(models) == 2 else None,
        terms={
            section.anchor: terms.explain(section.about.title, section.about.look_for, section.about.axes.y)
            for section in sections
        },
        overview=overview({each.name: each.diagnosis.findings for each in models}) if len(models) > 2 else None,
        sections=sections,
        not_measured=_not_measured(models, {section.about.key: section.about.title for section in sections}),
        cards=scheme_cards(scheme for each in models for scheme in each.diagnosis.schemes),
    )


def _changes(models: Sequence[NamedDiagnosis]) -> Table:
    """What differs between two diagnoses, such as those before and after a fix."""
    before, after = models
    rows = tuple(changes(before.diagnosis, after.diagnosis))
    return Table("What changed", ("check", before.name, after.name, "change"), rows)


def _title(names: Sequence[str]) -> str:
    """The name of the model, where all diagnoses are of one, else how many there are."""
    return f"Diagnosis: {names[0]}" if len(set(names)) == 1 else f"Diagnosis of {len(names)} models"


def scheme_cards(schemes: Iterable[str]) -> list[Card]:
    """The card of every scheme that is installed here; a diagnosis may come from a machine that has others."""
    known = {scheme.name: scheme for scheme in residual.schemes()}
    return [card(known[name]) for name in dict.fromkeys(schemes) if name in known]


def _not_measured(models: Sequence[NamedDiagnosis], titles: Mapping[str, str]) -> Table | None:
    """Measures that were not taken, with the models that share them and the reason."""
    merged: dict[tuple[str, str], list[str]] = {}
    for each in models:
        for missing in each.not_measured:
            measures = ", ".join(titles.get(key, check_name(key)) for key in missing.keys)
            merged.setdefault((measures, missing.reason), []).append(each.name)
    alone = len(models) == 1
    rows = tuple(
        (measures, reason) if alone else (measures, ", ".join(names), reason)
        for (measures, reason), names in merged.items()
    )
    headings = ("measure", "reason") if alone else ("measure", "model", "reason")
    return Table("", headings, rows) if rows else None


def _numbers(diagnoses: Sequence[Diagnosis]) -> str:
    """The JSON of one diagnosis, or a list of several, as `read_diagnoses` reads them."""
    texts = [each.model_dump_json(indent=1) for each in diagnoses]
    return texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]"
