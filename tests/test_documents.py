"""Every command and code block of the documents is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
pytestmark = pytest.mark.documented


def blocks(language: str) -> list[object]:
    """The fenced blocks of that language, each named after its document and line."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text()
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            found.append(pytest.param(match.group(1), id=f"{document.name}:{line}"))
    return found


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code: str, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands(code: str, tmp_path: Path) -> None:
    """`lamina` commands run; of `make` the dry run must know the target: the suite itself is one of them."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "make":
            words, folder = ["make", "--dry-run", *words[1:]], ROOT
        else:
            assert words[0] == "lamina", f"the test does not know how to run {line!r}"
            folder = tmp_path
        ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path})
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if "://" not in target:
                found = document.parent / target
                assert found.exists() or found.with_suffix(".md").exists(), f"{document.name}: {target}"


def test_the_tree_in_the_readme_names_every_room() -> None:
    readme = (ROOT / "README.md").read_text()
    rooms = [folder.name for folder in (ROOT / "src" / "lamina").iterdir() if (folder / "__init__.py").exists()]
    assert rooms
    for room in rooms:
        assert re.search(rf"^  {room}/ +\w", readme, re.MULTILINE), f"{room} is missing in the README's tree"
