"""docs/architecture.md agrees with the code: its map has every file, and its walks are the calls that are made.

`python tests/test_architecture.py` writes the map again, from the first sentence of every module.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lamina"
DOCUMENT = ROOT / "docs" / "architecture.md"
MAP = "## Map of the files\n"
DISCOVERED = {
    "residual": "one file per scheme: its equation, its drawing, its code",
    "tasks": "one file per task",
    "data/readers": "one file per format",
    "diagnosis/measures": "one file per measure",
    "diagnosis/checks": "one file per check",
    "training/optimisers": "one file per optimiser",
    "studies/papers": "one file per study",
}
LIMITS = {"train": 8, "compare": 10, "diagnose a config": 10, "diagnose a module": 8, "watch": 6}
MOST_FILES = 14


def modules(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*.py") if each.name not in ("__init__.py", "__main__.py"))


def packages() -> list[Path]:
    return [PACKAGE, *sorted(each.parent for each in PACKAGE.rglob("__init__.py") if each.parent != PACKAGE)]


def first_sentence(file: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^.][.?])\s", text)[0]


def is_member(file: Path) -> bool:
    """Whether a file of a discovered folder is a scheme, a task …, and not shared code."""
    from lamina import residual
    from lamina.data.readers import READERS
    from lamina.diagnosis.checks import CHECKS
    from lamina.diagnosis.measures import MEASURES
    from lamina.studies.papers import STUDIES
    from lamina.tasks import TASKS
    from lamina.training.optimisers import OPTIMISERS

    names = {*residual.names(), *READERS, *CHECKS, *MEASURES, *TASKS, *OPTIMISERS, *STUDIES}
    return str(file.parent.relative_to(PACKAGE)) in DISCOVERED and file.stem.replace("_", "-") in names


def make_map() -> str:
    sections = []
    for folder in packages():
        name = str(folder.relative_to(PACKAGE))
        listed = [each for each in modules(folder) if not is_member(each)]
        heading = "**`lamina/`**" if name == "." else f"**`{name}/`** {first_sentence(folder / '__init__.py')}"
        rows = [f"- `{each.name}`: {first_sentence(each)}" for each in listed]
        if name in DISCOVERED:
            rows.append(f"- {DISCOVERED[name]}: {', '.join(each.stem for each in modules(folder) if is_member(each))}")
        sections.append("\n".join([heading, "", *rows]))
    return (
        MAP
        + "\nMade from the first sentences of the modules by `python tests/test_architecture.py`.\n\n"
        + ("\n\n".join(sections) + "\n")
    )


def walks() -> dict[str, list[str]]:
    """The lists under `### train` and so on."""
    text = DOCUMENT.read_text().partition("## Five walks")[2].partition("\n## ")[0]
    sections = re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: re.findall(r"^\d+\. `(.+?)`", body, re.MULTILINE) for name, body in sections}


def test_the_map_has_every_file() -> None:
    assert DOCUMENT.read_text().endswith(make_map()), "run python tests/test_architecture.py"


@pytest.mark.parametrize("name", LIMITS)
def test_the_walks_are_the_calls_that_are_made(name: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    ran = subprocess.run(
        [sys.executable, "-m", "support.recorded_calls", name],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    recorded = [line.removeprefix("CALLS") for line in ran.stdout.splitlines() if line.startswith("CALLS")]
    assert recorded, ran.stderr
    calls = json.loads(recorded[0])
    assert walks()[name] == calls
    assert len(calls) <= LIMITS[name]


def test_folders_have_few_files() -> None:
    for folder in packages():
        if str(folder.relative_to(PACKAGE)) not in DISCOVERED:
            assert len(modules(folder)) <= MOST_FILES, folder


def test_no_file_is_too_long() -> None:
    for folder in packages():
        for file in modules(folder):
            assert len(file.read_text().splitlines()) <= 360, file


if __name__ == "__main__":
    written = DOCUMENT.read_text()
    DOCUMENT.write_text(written[: written.index(MAP)] + make_map())
