"""Optional libraries: found, or one clear error."""

from __future__ import annotations

import json

import pytest

from lamina.errors import UserError
from lamina.interop.library import require


def test_an_installed_library_is_imported() -> None:
    assert require("json", "this test", "none") is json


def test_a_missing_one_names_its_extra() -> None:
    with pytest.raises(UserError, match=r"lamina export --to onnx needs not_there .*pip install 'lamina\[export\]'"):
        require("not_there.part", "lamina export --to onnx", "export")
