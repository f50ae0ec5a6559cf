"""`lamina export`: a new folder, complete or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.interop.exports import export
from lamina.interop.exports.export import export_run
from support.varied_runs import varied_run


def test_an_unknown_format(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="format to export to 'onxx'"):
        export_run(varied_run("translation", stores, residual="b2t"), "onxx", tmp_path / "new")


def test_a_folder_that_exists(stores: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match="exists already; choose a new folder with --output"):
        export_run(varied_run("translation", stores, residual="b2t"), "hf", tmp_path)


def test_a_failure_leaves_nothing(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object, folder: Path) -> list[str]:
        (folder / "half").write_text("")
        raise UserError("cannot be exported")

    monkeypatch.setitem(export.WRITERS, "hf", lambda: fail)
    with pytest.raises(UserError, match="cannot be exported"):
        export_run(varied_run("translation", stores, residual="b2t"), "hf", tmp_path / "new")
    assert not list(tmp_path.iterdir())
