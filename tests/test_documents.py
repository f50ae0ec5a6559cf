"""Every command and code block of the documents is run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from lamina.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS += sorted((ROOT / "website" / "pages").glob("*.md"))
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
    """As they stand, on configs cut short. Of `make` only the dry run: the suite itself is one of its targets."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    cut_short(tmp_path / "configs" / "smoke")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in code.splitlines():
        arguments = shlex.split(line, comments=True)
        if not arguments:
            continue
        folder, command = (ROOT, f"make --dry-run {line[5:]}") if arguments[0] == "make" else (tmp_path, line)
        assert {"make", "lamina"} & set(arguments), f"the test does not know how to run {line!r}"
        environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"


def cut_short(folder: Path) -> None:
    """Few steps and small models in `base.toml`, and in the configs that extend it where they have values of their
    own."""
    for config in folder.glob("*.toml"):
        text = config.read_text()
        for key, value in {"steps": 3, "warmup_steps": 1, "validate_every": 3, "model_dim": 16}.items():
            text, found = re.subn(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.MULTILINE)
            assert found or config.name != "base.toml", key
        config.write_text(text)


def test_every_command_that_the_readme_names_is_run() -> None:
    readme = (ROOT / "README.md").read_text()
    fenced = "".join(re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL))
    run = set(re.findall(r"\blamina (\w+)", fenced))
    named = set(re.findall(r"`lamina (\w+)", readme))
    assert named <= run | {"demo"}, "make demo is `lamina demo`"
    assert {"train", "evaluate", "generate", "plan", "compare", "report", "diagnose"} <= run


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        text = document.read_text()
        for target in [*re.findall(r"\]\(([^)#]+)\)", text), *re.findall(r'<img src="([^"]+)"', text)]:
            if "://" not in target:
                found = document.parent / target
                is_page = document.parent.name == "pages"  # of the site, whose build checks its links
                assert is_page or found.exists() or found.with_suffix(".md").exists(), f"{document.name}: {target}"


def test_the_table_of_the_architecture_names_every_package() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Packages")[2].partition("\n## ")[0]
    packages = [folder.name for folder in (ROOT / "src" / "lamina").iterdir() if (folder / "__init__.py").exists()]
    assert packages
    for package in packages:
        assert f"`{package}`" in table, f"{package} is missing in the table of packages"


def spans() -> list[tuple[str, str]]:
    """Every command in the text of the documents, outside of fenced blocks: between backticks, or on a line of its
    own."""
    found = []
    for document in DOCUMENTS:
        text = re.sub(r"^```\w*\n.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
        commands = re.findall(r"`((?:lamina|python) [^`]+)`|^    (lamina .+)$", text, re.MULTILINE)
        found += [(document.name, " ".join((span or line).split())) for span, line in commands]
    return found


def test_commands_in_the_text_exist_with_their_options() -> None:
    """Those of fenced blocks are run; of the others the command and its options are compared with the command line."""
    known = get_command(app).commands  # type: ignore[attr-defined]
    checked = 0
    for document, command in spans():
        program, name, *words = command.split()
        if program != "lamina" or not name.isalpha() or name.isupper():
            continue
        checked += 1
        assert name in known, f"{document}: {command}"
        options = {option for each in known[name].params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        named = {word.partition("=")[0].rstrip(",.;") for word in words if re.match(r"--\w", word)}
        assert named <= options, f"{document}: {command}"
    assert checked > 30


def test_python_programs_in_the_text_exist() -> None:
    for document, command in spans():
        program, first, *words = command.split()
        if program == "python":
            exists = find_spec(words[0]) is not None if first == "-m" else (ROOT / first).is_file()
            assert exists, f"{document}: {command}"
