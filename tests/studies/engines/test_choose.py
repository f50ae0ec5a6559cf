"""Engines by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.studies.engines.choose import choose_engine


def test_the_local_engine_is_made_for_the_runs(tmp_path: Path) -> None:
    assert choose_engine("local", tmp_path) is None


def test_an_unknown_engine_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="slurm"):
        choose_engine("slrum", tmp_path)


@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_library_is_named_with_its_extra(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    opened = choose_engine(name, tmp_path)
    assert opened is not None
    with pytest.raises(UserError, match=rf"pip install 'lamina\[{name}\]'"):
        opened()
