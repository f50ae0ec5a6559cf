"""A scheme's card: equation, drawing, citation and options, read from the head of its file."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from lamina.residual.base import Residual


@dataclass(frozen=True)
class Card:
    """What `lamina schemes NAME` and the documentation show."""

    name: str
    title: str
    equation: str
    citation: str
    drawing: str
    notes: str
    options: tuple[tuple[str, str, str], ...]
    """Name, default and meaning of each option."""
    reference: str
    """The source of the plain loop written from the paper."""


def card(scheme: type[Residual[Any]]) -> Card:
    """The file's docstring is: a title, then indented equations, the citation, an indented drawing, notes."""
    module = sys.modules[scheme.__module__]
    title, *paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    # Somebody else's scheme may lack a part: what is not there is shown as empty.
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
