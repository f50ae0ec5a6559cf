"""The residual schemes on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lamina import residual
from lamina.errors import UserError
from lamina.report.terminal.schemes import show_scheme, show_table
from lamina.residual.card import card


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=160, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_a_row_for_every_scheme(console: Console) -> None:
    show_table(console)
    rows = {line.split()[0]: line for line in shown(console).splitlines() if line.strip()}
    for scheme in residual.schemes():
        assert rows[scheme.name].split()[1] == scheme.placement
        assert (rows[scheme.name].split()[2] == "yes") == scheme.folds


def test_a_scheme_in_full(console: Console) -> None:
    show_scheme("admin", console)
    text, expected = shown(console), card(residual.find("admin"))
    parts = [expected.title, expected.equation, expected.drawing, expected.citation, expected.reference.rstrip()]
    places = [text.index(part) for part in (parts[0], parts[1], parts[2], "omega = 'profile'", parts[3], parts[4])]
    assert places == sorted(places), "title, equation, drawing, options, citation, loop"


def test_sections_that_a_scheme_lacks_are_left_out(console: Console) -> None:
    name = next(each.name for each in residual.schemes() if not each.aliases and not each.Options.model_fields)
    show_scheme(name, console)
    assert "\nOptions\nnone\n" in shown(console)
    assert "Also called" not in shown(console)


def test_an_unknown_scheme_is_refused(console: Console) -> None:
    with pytest.raises(UserError, match="did you mean 'admin'"):
        show_scheme("admim", console)
    assert shown(console) == ""
