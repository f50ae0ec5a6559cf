"""The wheel, in an environment that holds nothing but the dependencies it declares, works outside the repository."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import venv
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def declared(requirements: list[str]) -> set[str]:
    """The installed distributions that requirements name, with those that they require in turn; no extras."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]
        if "extra ==" in requirement or name in found:
            continue
        try:
            waiting += metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue  # for another platform or version of Python
        found.add(name)
    return found


def link(name: str, packages: Path) -> None:
    """Make the packages of an installed distribution available in another environment."""
    distribution = metadata.distribution(name)
    for top in dict.fromkeys(file.parts[0] for file in distribution.files or []):
        target = packages / top
        if top not in ("..", "__pycache__") and not target.exists():
            target.symlink_to(str(distribution.locate_file(top)))  # some are inside of another package


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    [wheel] = folder.glob("lamina-*.whl")
    venv.create(folder / "environment", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "environment")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    [packages] = (folder / "environment").glob("lib/python3*/site-packages")
    [installed] = metadata.distributions(path=[str(packages)])
    for name in declared(installed.requires or []):
        link(name, packages)
    return folder / "environment"


def start(environment: Path, *command: str, folder: Path) -> subprocess.Popen[str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    chosen = bare | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    program, pipe = str(environment / "bin" / command[0]), subprocess.PIPE
    return subprocess.Popen([program, *command[1:]], cwd=folder, env=chosen, stdout=pipe, stderr=pipe, text=True)


def run(environment: Path, *command: str, folder: Path) -> str:
    process = start(environment, *command, folder=folder)
    printed, errors = process.communicate()
    assert process.returncode == 0, printed + errors
    return printed


def test_it_is_the_wheel_that_is_run(environment: Path, tmp_path: Path) -> None:
    where = run(environment, "python", "-c", "import lamina; print(lamina.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    assert run(environment, "lamina", "--version", folder=tmp_path).startswith("lamina ")
    assert "resi-dual" in run(environment, "lamina", "schemes", folder=tmp_path)


def test_the_demo_begins_to_train(environment: Path, tmp_path: Path) -> None:
    """Continuous integration runs the demo to its end in the repository; here its first run is enough."""
    demo = start(environment, "lamina", "demo", "--steps", "20", folder=tmp_path)
    while demo.poll() is None and not list(tmp_path.rglob("metrics.jsonl")):
        time.sleep(0.2)
    demo.send_signal(signal.SIGINT)
    printed, errors = demo.communicate()
    assert list(tmp_path.rglob("metrics.jsonl")), printed + errors


@pytest.mark.nightly
def test_the_demo_ends(environment: Path, tmp_path: Path) -> None:
    assert "The report: lamina-demo/report.html" in run(environment, "lamina", "demo", "--steps", "2", folder=tmp_path)
