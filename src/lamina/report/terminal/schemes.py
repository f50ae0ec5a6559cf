"""The residual schemes on a terminal: a table of all, or one in full."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lamina import residual
from lamina.residual.card import card
from lamina.terminal import open_console


def show_table(console: Console | None = None) -> None:
    """Print all schemes: name, position of the norms, whether it folds, and the equation of a sub-layer."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scheme", "norms", "folds"):
        table.add_column(heading, no_wrap=True)
    table.add_column("equation of a sub-layer")
    for scheme in residual.schemes():
        equation = card(scheme).equation.splitlines()[0]
        step = Text(re.split(r" {4,}", equation)[0])  # a remark follows after at least four spaces
        table.add_row(Text(scheme.name, style="cyan"), scheme.placement, "yes" if scheme.folds else "", step)
    console = console or open_console(highlight=True, soft_wrap=False, markup=True)
    console.print(table)
    console.print("\nOne in full: [cyan]lamina schemes resi-dual[/]", highlight=False)


def show_scheme(name: str, console: Console | None = None) -> None:
    """Print one scheme: equation, drawing, options, citation, and the plain loop that it is tested against."""
    console = console or open_console(highlight=True, soft_wrap=False, markup=True)
    scheme = residual.find(name)
    shown = card(scheme)

    def section(title: str, body: str) -> None:
        console.print(Text(f"\n{title}", style="bold"))
        console.print(Text(body), soft_wrap=True)

    console.print(Text.assemble((shown.name, "bold cyan"), "  ", shown.title), soft_wrap=True)
    section("Equation", shown.equation)
    section("Drawing", shown.drawing)
    if shown.notes:
        section("Notes", shown.notes)
    options = [f"{option} = {default}\n    {meaning}" for option, default, meaning in shown.options]
    section("Options", "\n".join(options) or "none")
    if scheme.aliases:
        section("Also called", ", ".join(scheme.aliases))
    section("From", shown.citation)
    section("As a loop", shown.reference.rstrip())
