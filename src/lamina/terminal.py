"""Text on the terminal: control characters in names, files and exceptions are replaced by visible signs.

Terminals interpret escape sequences: a name or a message in a run folder from elsewhere could clear the screen, set the
title or hide a line. All output of this package goes through `say` or a console of `open_console`.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

DIRECTIONS = (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the direction of the text that follows: a name could be read as another one."""
SIGNS = (
    {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}  # ␀ … ␛ … ␟
    | {0x7F: "␡"}
    | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
    | {code: f"\\u{code:04x}" for code in DIRECTIONS}
)


def visible(text: str) -> str:
    """Text with a sign in place of every control character, except line breaks and tabs."""
    return text.translate(SIGNS)


def say(text: object, *, error: bool = False) -> None:
    """Print a line, in red on standard error if it is an error."""
    if error:
        open_console(stderr=True).print(str(text), style="red")
    else:
        print(visible(str(text)))


def open_console(**options: Any) -> Console:
    """A console of rich that shows control characters; options are those of `rich.console.Console`."""
    console = Console(**({"highlight": False, "soft_wrap": True, "markup": False, "emoji": False} | options))
    console.push_render_hook(_ShowControls())
    return console


def guard_exceptions() -> None:
    """From now on, warnings and tracebacks of this process are printed with control characters shown."""
    format_warning = warnings.formatwarning

    def show_controls(*arguments: Any, **named: Any) -> str:
        return visible(format_warning(*arguments, **named))

    def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))

    warnings.formatwarning = show_controls
    sys.excepthook = print_traceback


class _ShowControls(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Visible(each) for each in renderables]


class _Visible:
    """Renders content with control characters made visible in every segment; rich's own control segments are kept."""

    def __init__(self, content: RenderableType) -> None:
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.content, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
