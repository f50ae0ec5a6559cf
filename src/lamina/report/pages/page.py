"""The frame of every page: one HTML file that needs no network and no script, or the same as Markdown.

HTML is escaped by Jinja, Markdown by the same rule: whatever a template prints is text, unless it was made on purpose.
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
    """`render("diagnosis", "html", …)`; templates are the files of `templates/`."""
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
    """Names of files may hold what UTF-8 cannot: such signs become question marks."""
    write_bytes(file, text.encode("utf-8", errors="replace"))


def write_bytes(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{file.parent}: cannot be made ({error.strerror}); choose another place for the report"
        ) from error
    write_file(file, content)


@cache
def _environment(form: str) -> Environment:
    loader = PackageLoader("lamina.report.pages", "templates")
    settings: dict[str, Any] = {"autoescape": True} if form == "html" else {"finalize": markdown.escape}
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **settings
    )
    environment.filters.update(sentence=_sentence, stopped=_stopped)
    if form == "html":
        environment.filters.update(formula=_formula)
    else:
        environment.filters.update(code=markdown.code, formula=markdown.span_of_code)
        environment.filters.update(table=markdown.table, md=markdown.Markdown)
        environment.globals.update(table_of_lines=markdown.table_of_lines, shades=markdown.shades)
    return environment


def _sentence(text: str) -> str:
    return _stopped(text[:1].upper() + text[1:])


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _formula(text: str) -> Markup:
    """x_k and x_{k−1} with their indices set low."""
    return Markup(
        re.sub(r"_(?:\{([^{}]*)\}|(\w+))", lambda found: f"<sub>{found[1] or found[2]}</sub>", str(escape(text)))
    )
