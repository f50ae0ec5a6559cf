"""Only `run_folder` contains the names of a run folder's files; other packages ask it for paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lamina"

NAMES = re.compile(
    r"config\.toml|status\.json|metrics\.jsonl|samples\.(txt|jsonl)|manifest\.json|^checkpoints$|^latest$|^average$|step-\*|step-\{"
    r"|(model|optimiser|random)\.safetensors|(optimiser|counters)\.json|(start|training|failure|observations)\.json"
    r"|fingerprint\.json|cost\.json|diagnosed\.json|log\.txt|wandb-id|\.former|\.replaced|^\.lock$"
)
STORES = {"data/store.py"}
"""The manifest of a store is the store's own file, which a run folder holds a copy of."""


def spelled_strings(file: Path) -> Iterator[str]:
    """All strings of a file except docstrings, which describe files but are not used as paths."""
    tree = ast.parse(file.read_text("utf-8"))
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


@pytest.mark.parametrize("package", sorted(each.name for each in SOURCE.iterdir() if each.name != "run_folder"))
def test_no_other_package_spells_a_file_name_of_a_run_folder(package: str) -> None:
    files = [SOURCE / package] if package.endswith(".py") else sorted((SOURCE / package).rglob("*.py"))
    found = [
        f"{file.relative_to(SOURCE)}: {text!r}"
        for file in files
        if file.relative_to(SOURCE).as_posix() not in STORES
        for text in spelled_strings(file)
        if NAMES.search(text)
    ]
    assert found == []


def test_the_search_finds_the_names_where_they_are() -> None:
    found = {name for file in (SOURCE / "run_folder").glob("*.py") for name in spelled_strings(file)}
    assert sum(bool(NAMES.search(each)) for each in found) > 20
