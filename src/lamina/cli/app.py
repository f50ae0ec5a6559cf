"""The command `lamina`, and what its process prints and returns."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer

from lamina.cli.completion import complete_key
from lamina.errors import FailedElsewhere, UserError
from lamina.terminal import guard_exceptions, say
from lamina.training.machine.allocator import keep_freed_memory

app = typer.Typer(
    name="lamina",
    help="Train deep Transformers whose residual connections you choose, and measure why they do or do not train.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: lamina demo",
)


INTERRUPTED = 130
"""The exit code after Ctrl-C."""

UsageError: Any = typer.BadParameter.__base__
"""The base class of typer's errors about arguments: click's, or that of typer's own copy of click."""

START, TRAINING, MODELS, REPORTS = "Start", "Train", "Use a trained model", "See how runs went, and why"
"""The headings of the groups of commands."""

EngineOption = Annotated[str, typer.Option(help="What trains the runs: local (this machine), ray or slurm.")]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Threads of every run on a cluster.")]
GpusOption = Annotated[int, typer.Option(min=0, help="GPUs of every run on a cluster.")]
EmitOption = Annotated[
    str, typer.Option(help="Write job files for snakemake or skypilot into the folder, and run nothing.")
]

Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Settings that replace those of the file, as key=value.", autocompletion=complete_key),
]


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
    keep_freed_memory()
    try:
        # Not standalone, because typer prints its own errors with the control characters of the arguments.
        code = app(args=sys.argv[1:] or ["--help"], prog_name="lamina", standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except UsageError as error:
        say(f"lamina: {_explain(error)}", error=True)
        sys.exit(2)
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
        sys.exit(INTERRUPTED)


def _explain(error: Any) -> str:
    """The message of a wrong argument, and the command that shows the right ones."""
    message = error.format_message().rstrip(".?! ")
    command = error.ctx.command_path if error.ctx else "lamina"
    return f"{message}; the arguments: {command} --help"
