"""The registry: which classes of a folder are members, and what happens to those that packages add."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.errors import UserError
from lamina.registry import Registry
from support.extensions import install

BASE = "class Animal:\n    sound: str\n"
MEMBER = "from animals.base import Animal\n\n\nclass {0}(Animal):\n    name = {1!r}\n"


@pytest.fixture
def animals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A registry over a package of three files; the members of one have another name than the file."""
    package = tmp_path / "animals"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(BASE)
    (package / "sea_cow.py").write_text(
        MEMBER.format("SeaCow", "sea-cow") + "\n\nclass Shared(SeaCow):\n    name = 'x'\n"
    )
    (package / "ant.py").write_text(MEMBER.format("Ant", "ant"))
    (package / "shared.py").write_text(MEMBER.format("Fur", "fur"))
    monkeypatch.syspath_prepend(str(tmp_path))
    from animals.base import Animal  # type: ignore[import-not-found]

    yield Registry("animals", Animal, kind="animal", group="test.animals")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("animals", "someones")]:
        del sys.modules[name]


def test_a_file_is_the_member_that_is_named_after_it(animals: Any) -> None:
    assert list(animals) == ["ant", "sea-cow"]
    assert len(animals) == 2
    assert [each.__name__ for each in animals.values()] == ["Ant", "SeaCow"]
    assert "sea-cow" in animals
    assert "fur" not in animals
    with pytest.raises(UserError, match="unknown animal 'sea_cow'; did you mean 'sea-cow'"):
        animals["sea_cow"]


def test_packages_add_members_and_broken_ones_are_left_out(animals: Any, tmp_path: Path) -> None:
    (tmp_path / "someones.py").write_text(MEMBER.format("Bee", "hive"))
    install(
        tmp_path,
        "test.animals",
        bee="someones:Bee",
        ant="someones:Bee",
        broken="someones:None_",
        other="json:JSONDecoder",
    )
    with pytest.warns(UserWarning, match="someones: animal '") as warned:
        assert list(animals) == ["ant", "bee", "sea-cow"]
    assert animals["bee"].name == "bee", "the name of the entry point counts"
    texts = sorted(str(each.message) for each in warned)
    assert len(texts) == 3
    assert "'ant' (someones:Bee) is left out: the name is already in use" in texts[0]
    assert "'broken' (someones:None_) cannot be used" in texts[1]
    assert "not a subclass of animals.base.Animal" in texts[2]


def test_a_script_adds_members_for_its_own_process(animals: Any) -> None:
    from animals.base import Animal  # type: ignore[import-not-found]

    first = type("Dodo", (Animal,), {"__module__": "__main__"})
    second = type("Dodo", (Animal,), {"__module__": "__main__"})
    animals.add("dodo", first)
    assert animals["dodo"].name == "dodo"
    animals.add("dodo", second)
    assert animals["dodo"] is second, "the cell of a notebook is run again"
    with pytest.raises(UserError, match=r"animal 'ant': the name is in use by animals\.ant\.Ant; choose another"):
        animals.add("ant", first)
    with pytest.raises(UserError, match=r"animal 'json': <class 'dict'> is not a subclass of animals\.base\.Animal"):
        animals.add("json", dict)
