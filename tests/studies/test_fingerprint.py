"""A finished run is used again while nothing it depends on has changed; and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.studies.fingerprint import code_files, fingerprint
from lamina.train.config import RunConfig


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
    assert {"b2t.py", "base.py", "stack.py", "loop.py", "translation.py"} <= names
    assert not {"dlcl.py", "pre_ln.py"} & names


def test_a_scheme_depends_on_the_one_it_is_built_on() -> None:
    names = {path.name for path in code_files(config(model={"residual": ["sandwich-ln", "dlcl"]}))}
    assert {"sandwich_ln.py", "dlcl.py"} <= names
    from lamina import residual

    for scheme in residual.schemes():
        files = {path.stem for path in code_files(config(model={"residual": scheme.name}))}
        parents = {base.name.replace("-", "_") for base in scheme.__mro__ if base in residual.schemes()}
        assert parents <= files
