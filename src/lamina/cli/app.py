"""The command `lamina`, and what its process prints and returns."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from lamina.errors import FailedElsewhere, UserError
from lamina.terminal import guard_exceptions, say

app = typer.Typer(
    name="lamina",
    help="Train deep Transformers whose residual connections you choose, and measure why they do or do not train.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: lamina demo",
)


START, TRAINING, MODELS, REPORTS = "Start", "Train", "Use a trained model", "See how runs went, and why"
"""The headings of the groups of commands."""

Overrides = Annotated[list[str] | None, typer.Argument(help="Settings that replace those of the file, as key=value.")]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if show:
        from lamina import __version__

        typer.echo(f"lamina {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point: a mistake of the user is reported as a sentence, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still shows the rest
    guard_exceptions()
    try:
        app()
    except FailedElsewhere:
        sys.exit(2)  # the process that failed says why
    except UserError as error:
        say(f"lamina: {error}", error=True)
        sys.exit(2)
    except OSError as error:
        say(f"lamina: {error}", error=True)
        sys.exit(1)
    except KeyboardInterrupt:
        say("lamina: interrupted", error=True)
        sys.exit(130)
