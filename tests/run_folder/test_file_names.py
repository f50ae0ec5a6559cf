"""Only `run_folder` contains the names of a run folder's files; other packages ask it for paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.run_folder import checkpoints
from lamina.run_folder.folder import FORMER, RunFolder

SOURCE = Path(__file__).parents[2] / "src" / "lamina"

FOLDER = RunFolder("runs/first")
WORDS = {checkpoints.BEST, FOLDER.diagnosis.name, FOLDER.tensorboard.name}
"""Names that are also common words: the best step, the command and the tracker of that name."""


def names() -> set[str]:
    """The names of all files and folders of a run folder, as the attributes and constants of `run_folder` have them."""
    held = [getattr(each, "path", each) for name, each in vars(FOLDER).items() if name != "path"]
    assert all(isinstance(each, Path) for each in held), "a name that this test does not see"
    constants = [each for name, each in vars(checkpoints).items() if name.isupper() and name != "ORIGIN"]
    texts = [text for each in constants for text in ([each] if isinstance(each, str) else each)]
    return {path.name for path in held} | set(texts)


def pattern() -> re.Pattern[str]:
    """File names anywhere in a text, the names of folders only as the whole text or as a part of a path."""
    files = [re.escape(each) for each in names() if "." in each]
    folders = [re.escape(each) for each in names() - WORDS if "." not in each]
    numbered = [r"step-[*{]", r"watch\.(json|html|\{)", r"samples\.txt", re.escape(FORMER)]
    return re.compile("|".join([*files, *numbered, rf"(^|/)({'|'.join(folders)})(/|$)"]))


NAMES = pattern()
OTHER_FOLDERS = {
    "data/store.py",
    "training/bert_folder.py",
    "interop/imports/import_run.py",
    "interop/imports/tensor_files.py",
}
"""Files of other folders with the same names: the manifest of a store, and the weights that transformers saves."""


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
        if file.relative_to(SOURCE).as_posix() not in OTHER_FOLDERS
        for text in spelled_strings(file)
        if NAMES.search(text)
    ]
    assert found == []


def test_the_search_finds_the_names_where_they_are() -> None:
    found = {name for file in (SOURCE / "run_folder").glob("*.py") for name in spelled_strings(file)}
    assert sum(bool(NAMES.search(each)) for each in found) > 25
    for text in ("runs/x/config.toml", "checkpoints", "a/average/b", "cost.json", "f'watch.{form}'", ".lock"):
        assert NAMES.search(text), text
    for text in ("the average of all", "configs", "latest news"):
        assert not NAMES.search(text), text


def test_the_page_about_the_run_folder_names_every_file() -> None:
    text = ast.get_docstring(ast.parse((SOURCE / "run_folder" / "folder.py").read_text("utf-8"))) or ""
    inside = {each for each in vars(checkpoints).values() if isinstance(each, str)} - {checkpoints.AVERAGE}
    assert [each for each in names() - inside - set(checkpoints.FILES) if each not in text] == []
