"""Data sets of the Hugging Face hub."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from lamina.data.readers import Notes, make_reader
from lamina.errors import UserError
from support.reading import fields


class FakeHub(types.ModuleType):
    """Replaces both libraries, so that tests do not use the network."""

    rows = ({"translation": {"de": "eins", "en": "one"}}, {"translation": {"de": " ", "en": "two"}})
    asked: tuple[Any, ...] = ()

    def load_dataset(self, id: str, configuration: str | None, split: str, streaming: bool) -> Iterator[dict[str, Any]]:
        type(self).asked = (id, configuration, split, streaming)
        if id == "absent":
            raise ConnectionError("no network")
        return iter(self.rows)

    def HfApi(self) -> FakeHub:  # noqa: N802 - the library's name
        return self

    def dataset_info(self, id: str) -> Any:
        return types.SimpleNamespace(sha=f"commit of {id}")


def test_hub_sets_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("datasets", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, FakeHub(name))
    columns = {"source": "translation.de", "target": "translation.en"}
    notes = Notes()
    reader = make_reader("hub", ("org/set:de-en",), "valid", columns)
    reader.check()
    assert fields(list(reader.read(notes))) == [("eins", "one")]
    assert FakeHub.asked == ("org/set", "de-en", "validation", True)
    assert notes.dropped_lines() == {"empty": {"org/set:de-en:validation": [2]}}
    assert reader.revisions() == {"org/set:de-en:validation": "commit of org/set"}  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="cannot be read from the hub .*no network"):
        list(make_reader("hub", ("absent",), "train", columns).read(Notes()))
    with pytest.raises(UserError, match="write id, id:configuration or id:configuration:split"):
        make_reader("hub", ("a:b:c:d",), "train", columns)


def test_the_hub_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[hub\]'"):
        make_reader("hub", ("org/set",), "train", {"text": "text"}).check()
