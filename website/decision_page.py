"""Verdicts and figures of the ledger in a page: each place names claims or a study, and the build fills it in.

{{ claims B-01 R-24 }}      the claims with their verdicts
{{ figure b2t-fig3 }}       the first figure of a study
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from lamina.report.figures.section import FigureSection
from lamina.studies.ledger import StudyResult
from lamina.studies.pages.ledger_page import LEDGER_SIGNS, LedgerEntry, ledger_entries
from lamina.studies.pages.study_page import exhibit_section, made_by
from lamina.studies.papers import STUDIES

MOST_PANELS = 3


def fill(text: str, results: Mapping[str, StudyResult]) -> str:
    """The page with the present results of the ledger, by study."""
    pages = {name: f"ledger/{name}.html" for name in results}
    entries = {each.id: each for each in ledger_entries(results, pages)}

    def claims(match: re.Match[str]) -> str:
        return "\n".join(_claim(entries[id], results) for id in match[1].split())

    text = re.sub(r"^\{\{ claims ([^}]*) \}\}$", claims, text, flags=re.MULTILINE)
    return re.sub(r"^\{\{ figure (\S+) \}\}$", lambda match: _figure(match[1], results), text, flags=re.MULTILINE)


def _claim(entry: LedgerEntry, results: Mapping[str, StudyResult]) -> str:
    link = f"[{entry.study}]({entry.page}#{entry.id})" if entry.page else entry.study
    scale = f", scale {results[entry.study].scale}" if entry.study in results else ""
    sign = LEDGER_SIGNS[entry.outcome]
    statement = escape(entry.statement[0].upper() + entry.statement[1:])
    return f"- **{sign} {entry.outcome}** ({entry.id}, {link}{scale}): {statement}. Paper: {escape(entry.paper)}."


def _figure(name: str, results: Mapping[str, StudyResult]) -> str:
    """The first figure of a study, or a note that there is none yet."""
    title = STUDIES[name].title
    exhibits = STUDIES[name]().exhibits(results[name].results) if name in results else []
    shown = next((exhibit_section(each) for each in exhibits if each.panels), None)
    if shown is None:
        return f"*{title} ({name}): the ledger has no figure of it yet.*\n"
    keys = "".join(f"<li>{key.picture}{escape(key.title)}</li>" for key in shown.legend)
    legend = f'<ul class="legend">{keys}</ul>' if len(shown.legend) > 1 else ""
    caption = f"*{shown.about.title}. {shown.about.look_for} [{name}](ledger/{name}.html): {made_by(results[name])}.*\n"
    figures = f'{legend}<div class="examples">{_panels(shown)}</div>'
    return f'<div class="ledger" data-search-exclude>{figures}</div>\n\n{caption}'


def _panels(section: FigureSection) -> str:
    return "".join(
        f"<figure><figcaption>{escape(each.title)}</figcaption>{each.picture}</figure>"
        for each in section.pictures[:MOST_PANELS]
    )
