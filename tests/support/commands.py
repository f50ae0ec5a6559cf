"""Commands as a user calls them: in a process of their own, or quicker in this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lamina.cli import app


def lamina(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lamina", *arguments], capture_output=True, text=True, cwd=cwd)


def assert_refused(arguments: list[str], message: str, cwd: Path | None = None) -> None:
    """The command ends with exit code 2 and a message, without a traceback."""
    failed = lamina(*arguments, cwd=cwd)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def invoke(*arguments: str) -> Any:
    """The result of a command that ran in this process: `exit_code`, `stdout`, `output`."""
    return CliRunner().invoke(app, arguments)


def printed(*arguments: str) -> str:
    """What a command that ran in this process printed."""
    found = invoke(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout
