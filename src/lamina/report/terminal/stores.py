"""Prepared data on a terminal: the named data sets, the contents of a store, and the examples that were left out."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from lamina.data.catalogue import SOURCES, Source
from lamina.data.prepare import list_notices, summarise
from lamina.data.sources import LoadTasks, describe
from lamina.data.store import Store
from lamina.terminal import open_console, say


def show_sources(of_tasks: Mapping[str, Source]) -> None:
    """Print the named data sets: those of the catalogue, and those that tasks bring themselves."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("set", no_wrap=True, style="cyan")
    table.add_column("what it is")
    for name, source in {**of_tasks, **SOURCES}.items():
        table.add_row(name, Text(source.title))
    console = open_console(highlight=True, soft_wrap=False, markup=True)
    console.print(table)
    console.print("\nWhere one comes from: [cyan]lamina prepare wmt14-en-de --show[/]", highlight=False)


def show_source(name: str, load_tasks: LoadTasks) -> None:
    open_console(highlight=True).print(Text(describe(name, load_tasks)))


def verify_store(path: str) -> bool:
    """Print what has changed since the store was made; returns whether nothing has."""
    problems = Store.open_unverified(path).verify()
    for problem in problems:
        say(problem)
    if not problems:
        say(f"{path}: as it was made, and so are its sources")
    return not problems


def show_store(store: Store) -> None:
    """Print the number of examples and tokens of each split, and of those left out or repaired."""
    console = open_console(highlight=True, soft_wrap=False, markup=True)
    summary = summarise(store)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("split", style="cyan")
    for heading in ("examples", "tokens", "left out", "repaired"):
        table.add_column(heading, justify="right")
    for name, record in summary["splits"].items():
        tokens = " + ".join(f"{field['tokens']:,}" for field in record["fields"].values())
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in record["dropped"].items())
        repaired = ", ".join(f"{count:,} {reason}" for reason, count in record["repaired"].items())
        table.add_row(name, f"{record['examples']:,}", tokens, left_out or "–", repaired or "–")
    console.print(table)
    sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(summary["vocabulary"].values()))
    for notice in list_notices(store):
        console.print(Text(f"Note: {notice}"), soft_wrap=True)
    console.print(f"\nVocabulary: {sizes}. Store: {store.folder}", highlight=False, soft_wrap=True)


def show_dropped(store: Store) -> None:
    """Print a line for each example that was left out: split, file, line, reason."""
    for split, reasons in store.dropped().items():
        for reason, files in reasons.items():
            for file, lines in files.items():
                for line in lines:
                    say(f"{split}\t{file}\t{line}\t{reason}")
