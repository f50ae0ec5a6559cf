"""A scheme's card: equation, drawing, citation and options, from the docstring of its file."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from lamina.residual.base import Residual


@dataclass(frozen=True)
class Card:
    """The description of a scheme that `lamina schemes NAME` and the documentation show."""

    name: str
    title: str
    equation: str
    citation: str
    drawing: str
    notes: str
    options: tuple[tuple[str, str, str], ...]
    """The name, default and description of each option."""
    reference: str
    """The source of the plain loop written from the paper."""


def card(scheme: type[Residual[Any]]) -> Card:
    """The card of a scheme, whose docstring has a title, indented equations, the citation, an indented drawing,
    notes."""
    module = sys.modules[scheme.__module__]
    title, *paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    # A scheme of another package may lack a section, which is then empty.
    end = len(paragraphs)
    citation_at = next((at for at, text in enumerate(paragraphs) if not text.startswith(" ")), end)
    drawing_at = next((at for at, text in enumerate(paragraphs) if at > citation_at and text.startswith(" ")), end)
    paragraphs += ["", ""]
    return Card(
        name=scheme.name,
        title=title,
        equation=textwrap.dedent("\n\n".join(paragraphs[:citation_at])),
        citation=" ".join(paragraphs[citation_at].split()),
        drawing=textwrap.dedent(paragraphs[drawing_at]),
        notes="\n\n".join(paragraphs[drawing_at + 1 : end]),
        options=tuple(
            (name, repr(field.default), field.description or "") for name, field in scheme.Options.model_fields.items()
        ),
        reference=inspect.getsource(module.reference) if hasattr(module, "reference") else "",
    )
