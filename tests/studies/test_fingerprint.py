"""A finished run is used again while nothing it depends on has changed; and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import residual
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.studies import reuse as module
from lamina.studies.reuse import code_files, diagnosis_fingerprint, fingerprint
from lamina.training.config import RunConfig


def toy(folder: Path, sentences: int) -> Store:
    sets = {"train": [f"translation:{sentences}"], "valid": ["translation:6"], "test": ()}
    return prepare(source_options("embedded-translation", ".", str(folder), tokenizer={"size": 400}, **sets))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return toy(tmp_path / "toy", 60)


def config(**changes: object) -> RunConfig:
    return RunConfig.read({"model": {"residual": "b2t", "num_layers": 2}} | changes, where="test")


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_config_and_data_count(store: Store, tmp_path: Path) -> None:
    base = fingerprint(config(), store)
    assert fingerprint(config(), store) == base
    assert changed(base, fingerprint(config(seed=2), store)) == {"config"}
    assert changed(base, fingerprint(config(), toy(tmp_path / "other", 61))) == {"data"}


def test_what_changes_no_result_does_not_count(store: Store) -> None:
    quieter = config(train={"threads": 2, "log_every": 7}, data={"store": "elsewhere"})
    assert changed(fingerprint(config(), store), fingerprint(quieter, store)) == set()


def test_code_counts_but_for_schemes_that_are_not_used() -> None:
    names = {path.name for path in code_files(config())}
    assert {"b2t.py", "base.py", "stack.py", "loop.py", "translation.py", "options.py", "config.py"} <= names
    assert not {"dlcl.py", "pre_ln.py"} & names


@pytest.mark.parametrize(
    ("scheme", "made_of"),
    [
        ("sandwich-ln", {"pre_ln"}),
        ("b2t-over-all", {"b2t"}),
        ("admin", {"post_ln"}),
        ("deep-norm", {"post_ln"}),
        ("look-linear", {"post_ln"}),
        ("depth-scaled", {"post_ln"}),
        ("mix-ln", {"post_ln", "pre_ln"}),
        ("dense-former", {"dlcl"}),
    ],
)
def test_a_scheme_depends_on_those_it_is_made_of(scheme: str, made_of: set[str]) -> None:
    files = {path.stem for path in code_files(config(model={"residual": [scheme, "siamese"]}))}
    schemes = {each.__module__.rpartition(".")[2] for each in residual.schemes()}
    assert files & schemes == made_of | {scheme.replace("-", "_"), "siamese"}


def edit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As if the file of that name had changed."""
    true_hash = module.hash_file
    monkeypatch.setattr(module, "hash_file", lambda path: "edited" if path.name == name else true_hash(path))


def test_an_edit_of_what_a_scheme_is_made_of_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, b2t = config(model={"residual": "admin"}), config()
    before = fingerprint(admin, store), fingerprint(b2t, store)
    edit(monkeypatch, "post_ln.py")
    assert changed(before[0], fingerprint(admin, store)) == {"code"}
    assert fingerprint(b2t, store) == before[1]


def test_what_diagnoses_depend_on_does_not_change_the_training(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    base = fingerprint(config(), store), diagnosis_fingerprint(config())
    other = config(diagnose={"verdicts": {"vanishing_failure": 0.5}})
    assert fingerprint(other, store) == base[0]
    assert diagnosis_fingerprint(other) != base[1]
    for name in ("gradient_by_layer.py", "diagnose.py"):
        edit(monkeypatch, name)
        assert fingerprint(config(), store) == base[0]
        assert diagnosis_fingerprint(config()) != base[1]
        monkeypatch.undo()
