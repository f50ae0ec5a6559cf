"""Rendering of every page: one HTML file that needs no network and no script, or the same content as Markdown.

Jinja escapes all text in HTML pages, and `markdown.escape` all text in Markdown pages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.report.pages import markdown

FORMS = {".html": "html", ".htm": "html", ".md": "md"}


def render(template: str, form: str, **content: Any) -> str:
    """The page of a template: `render("diagnosis", "html", …)` fills in `templates/diagnosis.html`."""
    text = _environment(form).get_template(f"{template}.{form}").render(**content)
    return text if form == "html" else re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def form_of(file: Path, others: tuple[str, ...] = ()) -> str:
    """`html` or `md`, by the file's ending; also one of `others`, such as `json`."""
    known = FORMS | {f".{each}": each for each in others}
    form = known.get(file.suffix.lower())
    if form is None:
        endings = ", ".join(ending for ending in known if ending != ".htm")
        raise UserError(f"{file}: a report is written to a file that ends in one of {endings}")
    return form


def write_text(file: Path, text: str) -> None:
    """Write text as UTF-8; characters that it cannot encode, as in some names of files, become question marks."""
    write_bytes(file, text.encode("utf-8", errors="replace"))


def write_bytes(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{file.parent}: cannot be created ({error.strerror}); choose another place for the report"
        ) from error
    write_file(file, content)


@cache
def _environment(form: str) -> Environment:
    loader = PackageLoader("lamina.report.pages", "templates")
    settings: dict[str, Any] = {"autoescape": True} if form == "html" else {"finalize": markdown.escape}
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **settings
    )
    environment.filters.update(sentence=_sentence)
    if form == "html":
        environment.filters.update(formula=_formula)
    else:
        environment.filters.update(code=markdown.code, inline_code=markdown.inline_code)
        environment.filters.update(table=markdown.table, md=markdown.Markdown)
        environment.globals.update(curve_table=markdown.curve_table, shaded_maps=markdown.shaded_maps)
    return environment


def _sentence(text: str) -> str:
    """The text as a sentence, with a capital letter and a full stop."""
    first = text.split(" ", 1)[0]
    if first.isascii() and not set("._") & set(first.rstrip(".,:;")):  # neither a symbol such as β₂ nor a path
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _formula(text: str) -> Markup:
    """A formula with subscripts for `x_k` and `x_{k−1}`."""
    return Markup(
        re.sub(r"_(?:\{([^{}]*)\}|(\w+))", lambda found: f"<sub>{found[1] or found[2]}</sub>", str(escape(text)))
    )
