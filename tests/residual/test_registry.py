"""Adding a scheme needs one new file only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lamina
from lamina import UserError, residual
from support.extensions import ROOT, copy_package, install, run

NEW_SCHEME = '''
"""Halved: the branch counts half.

    x ← LN(x + f(x)/2)                              end: x

Nobody 2026, An Example.

    x ──┬──► f ── ÷2 ──►(+)──► LN ──► x
        └────────────────┘
"""

from torch import Tensor

from lamina.residual.base import Place, SingleStream, Site
from lamina.residual.post_ln import PostLNSite
from lamina.residual.reference import Layers, Parameters


class Halved(SingleStream):
    placement = "post"

    def site(self, place: Place) -> Site[Tensor]:
        return HalvedSite(self.new_norm())


class HalvedSite(PostLNSite):
    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(state + branch / 2)


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(x + f(x) / 2)
    return x
'''.lstrip()


def test_one_new_file_is_a_new_scheme(tmp_path: Path) -> None:
    (copy_package(tmp_path) / "residual" / "halved.py").write_text(NEW_SCHEME)

    table = run("-m", "lamina", "schemes", path=tmp_path)
    assert "halved" in table.stdout, table.stderr
    shown = run("-m", "lamina", "schemes", "halved", path=tmp_path)
    assert "x ← LN(x + f(x)/2)" in shown.stdout
    assert "Nobody 2026" in shown.stdout

    build = "from lamina.model.options import ModelOptions; print(ModelOptions(residual='halved').residual)"
    assert run("-c", build, path=tmp_path).stdout.strip() == "halved"

    folder = ROOT / "tests" / "residual"
    suites = [str(folder / f"test_{name}.py") for name in ("conformance", "initialisation")]
    chosen = ["-k", "halved or covered", "-m", "not slow"]
    checked = run("-m", "pytest", *suites, *chosen, "-p", "no:cacheprovider", path=tmp_path)
    assert checked.returncode == 0, checked.stdout[-3000:]
    passed = re.search(r"(\d+) passed", checked.stdout)
    assert passed is not None
    assert int(passed.group(1)) > 20


def test_an_installed_package_adds_schemes_by_entry_point(tmp_path: Path) -> None:
    (tmp_path / "someones_halved.py").write_text(NEW_SCHEME)
    install(tmp_path, "lamina.schemes", halved="someones_halved:Halved")
    shown = run("-m", "lamina", "schemes", "halved", path=tmp_path)
    assert "Nobody 2026" in shown.stdout, shown.stderr


def test_aliases_and_unknown_names() -> None:
    assert residual.find("peri-ln") is residual.find("sandwich-ln")
    assert "peri-ln" not in residual.names()
    assert lamina.Transformer.from_preset("iwslt", residual="peri-ln", num_layers=1).options.residual == "sandwich-ln"
    with pytest.raises(UserError, match=r"unknown residual scheme 'b2'; did you mean 'b2t'"):
        residual.find("b2")


def test_all_schemes_of_the_papers_and_of_today_are_there() -> None:
    papers = (
        "post-ln pre-ln b2t b2t-no-norm b2t-over-all resi-dual admin deep-norm dlcl t-fixup re-zero re-zero-post-ln"
    )
    papers += " fixup look-linear depth-scaled"
    today = "sandwich-ln mix-ln layer-scale ln-scaling dense-former keel siamese hyper-connections"
    assert {*papers.split(), *today.split()} <= set(residual.names())


def test_nothing_outside_the_folder_refers_to_a_scheme_by_name() -> None:
    package, names = ROOT / "src" / "lamina", set(residual.names())
    for file in package.rglob("*.py"):
        if file.relative_to(package).parts[0] not in ("residual", "studies"):
            constants = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
            assert not names.intersection(value for value in constants if isinstance(value, str)), file


def test_a_package_that_brings_a_broken_scheme_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "somebody.py").write_text("raise RuntimeError('half installed')\n")
    entries = {"broken": "somebody:Broken", "post-ln": "somebody:Other", "nothing": "json:JSONEncoder"}
    install(tmp_path, "lamina.schemes", **entries)
    listed = run("-m", "lamina", "schemes", path=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "someones: residual scheme 'broken' (somebody:Broken) cannot be used" in listed.stderr
    assert "left out: half installed" in listed.stderr
    assert "'post-ln' (somebody:Other) is left out: the name is already in use" in listed.stderr
    assert "not a subclass" in listed.stderr
    assert "post-ln" in listed.stdout
