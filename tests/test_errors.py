"""Messages about unknown names suggest the nearest valid one and list all."""

from __future__ import annotations

import pytest

from lamina.errors import UserError, nearest, unknown


@pytest.mark.parametrize(
    ("word", "choice"),
    [("qeury", "query"), ("QUERY", "query"), ("post_ln", "post-ln"), ("num_layer", "num_layers"), ("zzz", None)],
)
def test_the_nearest_choice(word: str, choice: str | None) -> None:
    assert nearest(word, ["query", "post-ln", "num_layers"]) == choice


def test_an_unknown_name_is_explained() -> None:
    error = unknown("role", "qeury", ["query", "key"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown role 'qeury'; did you mean 'query'? Valid: query, key."
    assert str(unknown("role", "zzz", ["query"])) == "unknown role 'zzz'. Valid: query."
    assert str(unknown("role", "zzz", [])) == "unknown role 'zzz'. There are none."
