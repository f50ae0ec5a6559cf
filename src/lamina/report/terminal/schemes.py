"""The residual schemes, shown on a terminal."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lamina import residual
from lamina.residual.card import card


def show_table(console: Console | None = None) -> None:
    """All schemes: name, where its norms stand, whether it folds, and what a sub-layer does."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scheme", "norms", "folds"):
        table.add_column(heading, no_wrap=True)
    table.add_column("a sub-layer does")
    for scheme in residual.schemes():
        equation = card(scheme).equation.splitlines()[0]
        step = Text(re.split(r" {4,}", equation)[0])  # what stands far to the right is a remark
        table.add_row(Text(scheme.name, style="cyan"), scheme.placement, "yes" if scheme.folds else "", step)
    console = console or Console()
    console.print(table)
    console.print("\nOne in full: [cyan]lamina schemes resi-dual[/]", highlight=False)


def show_scheme(name: str, console: Console | None = None) -> None:
    """One scheme: equation, drawing, options, citation, and the plain loop it must equal."""
    console = console or Console()
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
