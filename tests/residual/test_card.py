"""Cards: every scheme of Lamina has every section; a scheme of another package may lack some."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from lamina import residual
from lamina.residual.card import card
from lamina.residual.pre_ln import PreLN


@pytest.mark.parametrize("name", residual.names())
def test_card_shows_equation_drawing_citation_and_options(name: str) -> None:
    scheme = residual.find(name)
    shown = card(scheme)
    assert shown.name == name
    assert "←" in shown.equation or "Σ" in shown.equation
    assert any(mark in shown.drawing for mark in "─►")
    assert any(character.isdigit() for character in shown.citation), "a citation has a year"
    assert "def reference" in shown.reference
    assert all(description for _, _, description in shown.options), "every option says what it does"
    assert {option for option, _, _ in shown.options} == set(scheme.Options.model_fields)


def test_a_docstring_without_drawing_and_notes_has_empty_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("others")
    module.__doc__ = "Title.\n\n    x ← x + f(x)\n\n    y ← x\n\nSomebody 2020,\npage 3\n"
    monkeypatch.setitem(sys.modules, "others", module)

    class Other(PreLN):
        __module__ = "others"

    shown = card(Other)
    assert (shown.name, shown.title) == ("others", "Title.")
    assert shown.equation == "x ← x + f(x)\n\ny ← x"
    assert shown.citation == "Somebody 2020, page 3"
    assert (shown.drawing, shown.notes, shown.reference) == ("", "", "")
