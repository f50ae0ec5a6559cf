"""The options of generation."""

from __future__ import annotations

from typing import Any

import pytest

from lamina import UserError
from lamina.generate.options import GenerateOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 2, "nbest": 3}, "nbest 3 outputs cannot come from a beam of 2"),
        ({"method": "greedy", "nbest": 2}, "greedy decoding has one output"),
        ({"min_length": 5, "max_length": 4}, "min_length 5 is larger than max_length 4"),
        ({"method": "bean"}, "did you mean 'beam'"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        GenerateOptions.read(options, where="generate")
