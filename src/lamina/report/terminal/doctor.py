"""The examination of a machine on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from lamina.formatting import count
from lamina.terminal import open_console
from lamina.training.machine.doctor import Examination


def show_examination(found: Examination) -> None:
    """Print what was found, then what to change."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(found):
        table.add_row(name, escape(value))
    console = open_console(soft_wrap=False, markup=True)
    console.print(table)
    if not found.advice:
        console.print("\nNothing to change.")
    for advice in found.advice:
        console.print(f"\n{escape(advice.why)}; change it with\n    [bold]{escape(advice.line)}[/]", soft_wrap=True)


def _facts(found: Examination) -> Iterator[tuple[str, str]]:
    processor, memory, check = found.processor, found.memory, found.determinism
    yield "versions", ", ".join(f"{name} {version}" for name, version in found.versions.items())
    instructions = f" ({', '.join(processor.instructions)})" if processor.instructions else ""
    yield "processor", f"{processor.name}{instructions}"
    chosen = "not set" if processor.threads_chosen is None else processor.threads_chosen
    used = f"{count(processor.threads, 'thread')} of torch on {count(processor.cores, 'core')}"
    yield "threads", f"{used}, OMP_NUM_THREADS {chosen}"
    yield "devices", ", ".join(found.devices) or "no accelerator: everything runs on the CPU"
    library = f"glibc {memory.glibc}" if memory.glibc else "another C library than glibc"
    settings = " ".join(f"{name}={value}" for name, value in memory.settings.items())
    yield "allocator", f"{memory.replacement or library}, {settings or 'no settings'}"
    yield "bf16", _describe_bf16(found)
    verdict = "the same weights, bit for bit" if check.identical else "other weights"
    trained = f"{count(check.steps, 'step')} twice on {check.device} with {count(check.threads, 'thread')}"
    yield "determinism", f"{verdict}: {trained}, {check.seconds:.1f} s"


def _describe_bf16(found: Examination) -> str:
    support = found.bf16
    announced = "instructions announced" if support.announced else "no instructions of the processor, so slow"
    if support.killed_by:
        return f"{announced}, but a child process that uses them was killed ({support.killed_by})"
    return f"{announced}; a child process could multiply"
