"""Every module has a test of its name, and every class a name of its own.

Every scheme, task, optimiser, measure and check has a test and a golden value.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from golden import table
from lamina.diagnosis.checks import CHECKS
from lamina.diagnosis.measures import MEASURES
from lamina.model.initialisation import Initialisation
from lamina.registry import Registry
from lamina.residual import SCHEMES
from lamina.studies.papers import STUDIES
from lamina.tasks import TASKS
from lamina.training.optimisers import OPTIMISERS
from lamina.training.schedule import ScheduleOptions

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "lamina"
SUITES = {
    "scheme": (SCHEMES, "residual/test_conformance.py"),
    "task": (TASKS, "tasks/test_tasks.py"),
    "optimiser": (OPTIMISERS, "training/test_optimisers.py"),
}
"""Kinds whose suite runs the same tests over all members."""
FOLDERS = {"measure": (MEASURES, "diagnosis/measures"), "check": (CHECKS, "diagnosis/checks")}
"""Kinds whose members have tests of their own."""
WITHOUT_OWN_TEST = {"version.py": "one constant, which tests/cli/test_app.py compares with `lamina --version`"}
"""Modules without a test file of their own, and why; members of a kind in `SUITES` need none."""


def own(registry: Registry[Any]) -> list[str]:
    """Without those that installed packages add."""
    return [name for name, member in registry.members.items() if member.__module__.startswith("lamina.")]


@cache
def parametrised(file: str) -> set[Any]:
    """All single values over which the tests of a file are parametrised."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, TESTS / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = [each for name, each in inspect.getmembers(module, inspect.isfunction) if name.startswith("test_")]
    marks = [mark for test in tests for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    return {value for mark in marks for value in mark.args[1] if isinstance(value, str)}


def without_test(names: Iterable[str], folder: str) -> list[str]:
    """The names without a test file of that name whose tests use the module or name the member."""
    package = f"lamina.{folder.replace('/', '.')}"
    return [name for name in names if not is_tested_by(TESTS / folder / f"test_{name.replace('-', '_')}.py", package)]


def is_tested_by(file: Path, package: str) -> bool:
    """Whether the code of a test file uses what it imports from the module it is named after, or the member's key."""
    if not file.is_file():
        return False
    module = file.stem.removeprefix("test_")
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    imports = [each for each in nodes if isinstance(each, ast.ImportFrom) and each.module == f"{package}.{module}"]
    imported = {alias.name for each in imports for alias in each.names}
    used = {each.id for each in nodes if isinstance(each, ast.Name)}
    texts = {each.value for each in nodes if isinstance(each, ast.Constant)}
    has_tests = any(isinstance(each, ast.FunctionDef) and each.name.startswith("test_") for each in nodes)
    return has_tests and bool(imported & used or module.replace("_", "-") in texts)


def without_mirrored_test(source: Path, tests: Path) -> list[str]:
    """The modules below a folder without a test file of their name at the same place below the folder of tests."""
    modules = (file.relative_to(source) for file in sorted(source.rglob("*.py")) if not file.name.startswith("__"))
    return [str(each) for each in modules if not checks_something(tests / each.parent / f"test_{each.name}")]


def checks_something(file: Path) -> bool:
    """Whether there is such a file, with a test, and an assertion or an error that a test expects."""
    if not file.is_file():
        return False
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    names = [each.name for each in nodes if isinstance(each, ast.FunctionDef)]
    expected = [each for each in nodes if isinstance(each, ast.Attribute) and each.attr == "raises"]
    asserts = [each for each in nodes if isinstance(each, ast.Assert)]
    return any(name.startswith("test_") for name in names) and bool(asserts or expected)


def without_golden_value(kind: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if f"{kind}/{name}" not in table.read_values()]


def diagnosed() -> dict[str, set[str]]:
    """The measures and checks that the golden diagnoses have values of."""
    found: dict[str, set[str]] = {"measure": set(), "check": set()}
    stored = [value for row, value in table.read_values().items() if row.startswith("diagnosis/")]
    for value in stored:
        for each in [value] if "measures" in value else value.values():
            found["measure"] |= {key for key, lines in each["measures"].items() if lines}
            found["check"] |= {check for check, values in each["findings"].items() if values}
    return found


def test_every_module_has_a_test_of_its_name() -> None:
    members: set[type] = {
        member for registry, _ in SUITES.values() for member in map(registry.__getitem__, own(registry))
    }
    # studies/papers/test_training_claims.py checks the claims of all studies that train models
    members |= {study for study in map(STUDIES.__getitem__, own(STUDIES)) if study().runs("tiny")}
    covered = {str(Path(inspect.getfile(member)).resolve().relative_to(SOURCE.resolve())) for member in members}
    missing = without_mirrored_test(SOURCE, TESTS)
    assert [each for each in missing if each not in covered | set(WITHOUT_OWN_TEST)] == []
    assert set(WITHOUT_OWN_TEST) <= set(missing), "an exception that is no longer needed"


def test_a_module_without_a_test_is_found(tmp_path: Path) -> None:
    source, tests = tmp_path / "source", tmp_path / "tests"
    for folder in (source / "model", tests / "model"):
        folder.mkdir(parents=True)
    for name in ("__init__", "stack", "heads", "cache"):
        (source / "model" / f"{name}.py").touch()
    (tests / "model" / "test_stack.py").write_text("def test_it():\n    assert 1 + 1 == 2")
    (tests / "model" / "test_heads.py").write_text("def test_it():\n    heads()")
    (tests / "test_cache.py").write_text("def test_it():\n    assert 1 + 1 == 2")
    assert without_mirrored_test(source, tests) == ["model/cache.py", "model/heads.py"]


@pytest.mark.parametrize("kind", SUITES)
def test_every_member_runs_through_its_suite_and_has_golden_values(kind: str) -> None:
    registry, file = SUITES[kind]
    assert own(registry)
    assert [name for name in own(registry) if name not in parametrised(file)] == []
    assert without_golden_value(kind, own(registry)) == []


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_measure_and_check_has_a_test_and_golden_values(kind: str) -> None:
    registry, folder = FOLDERS[kind]
    assert own(registry)
    assert without_test(own(registry), folder) == []
    assert [key for key in own(registry) if key not in diagnosed()[kind]] == []


def test_checks_read_measures_that_exist_and_that_they_declare() -> None:
    for key in own(CHECKS):
        check = CHECKS[key]
        read = re.findall(r"evidence\.get\(\"([^\"]+)\"\)", inspect.getsource(inspect.getmodule(check)))
        assert [each for each in check.reads if each not in MEASURES] == [], key
        assert set(read) == set(check.reads), f"{key} reads other measures than it declares"


def test_every_initialisation_and_schedule_has_golden_values() -> None:
    assert without_golden_value("initialisation", get_args(Initialisation)) == []
    assert without_golden_value("schedule", get_args(ScheduleOptions.model_fields["name"].annotation)) == []


def test_what_is_missing_is_found(tmp_path: Path) -> None:
    assert "my-scheme" not in parametrised(SUITES["scheme"][1])
    assert without_test(["stream-norms", "stream", "my-measure"], FOLDERS["measure"][1]) == ["stream", "my-measure"]
    file, package = tmp_path / "test_my_check.py", "lamina.diagnosis.checks"
    file.write_text(f"# {package}.my_check\ndef test_it(): ...")
    assert not is_tested_by(file, package), "a comment that names it is no test"
    file.write_text(f"from {package}.my_check import MyCheck\ndef test_it(): MyCheck().judge()")
    assert is_tested_by(file, package)
    assert without_golden_value("task", ["translation", "my-task"]) == ["my-task"]


def type_names(code: str) -> list[str]:
    """The classes and aliases of types that a module defines; type variables, which have no meaning outside, not."""
    names = []
    for statement in ast.parse(code).body:
        match statement:
            case ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.isupper() and name[0].isupper():
                is_variable = isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"
                names += [] if is_variable else [name]
    return names


def test_no_two_modules_define_a_class_or_an_alias_of_the_same_name() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        for name in type_names(file.read_text("utf-8")):
            modules[name].append(str(file.relative_to(SOURCE)))
    assert "Diagnosis" in modules
    assert {name: files for name, files in modules.items() if len(files) > 1} == {}
    assert type_names("class A: ...\nBoth = int | str\nT = TypeVar('T')\nLIMIT = 3\nvalue = 2") == ["A", "Both"]
