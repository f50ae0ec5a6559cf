"""Completion by the shell, asked as bash asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.cli.completion import complete_key, complete_scheme, complete_task


def test_schemes_tasks_and_keys() -> None:
    assert complete_scheme("b2t") == ["b2t", "b2t-no-norm", "b2t-over-all"]
    assert complete_task("trans") == ["translation"]
    assert complete_key("train.st") == ["train.steps="]
    assert "model.residual=" in complete_key("model.")
    assert complete_key("no such key") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [("lamina sche", "schemes"), ("lamina schemes resi", "resi-dual"), ("lamina train own.toml seed", "seed=")],
)
def test_the_shell_gets_them(line: str, expected: str, tmp_path: Path) -> None:
    asked = {"_LAMINA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    command = [sys.executable, "-m", "lamina"]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked, cwd=tmp_path)
    assert expected in ran.stdout.split(), ran.stderr
