"""`lamina export`: writes a trained run in another library's format, as a new folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from lamina.errors import UserError, unknown
from lamina.files.atomic import partial_path, sync_folder
from lamina.interop.library import require
from lamina.runs.run import Run

Writer = Callable[[Run, Path], list[str]]
"""Writes a run to an existing empty folder; returns what a user should know about the result."""


def export_run(run: Run, form: str, folder: str | Path) -> list[str]:
    """Write a run in a format to a new folder, which appears when it is complete; returns notes for the user."""
    if form not in WRITERS:
        raise unknown("format to export to", form, WRITERS)
    path = Path(folder)
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise UserError(f"{path}: exists already; choose a new folder with --output")
    write = WRITERS[form]()
    temporary = partial_path(path)
    try:
        temporary.mkdir(parents=True)
        notes = write(run, temporary)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); choose another --output") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return notes


def _hugging_face() -> Writer:
    require("transformers", "lamina export --to hf", "transformers")
    from lamina.interop.auto_models.folder import save_run

    return save_run


def _ctranslate2() -> Writer:
    require("ctranslate2", "lamina export --to ctranslate2", "export")
    from lamina.interop.exports.ctranslate2_model import save_ctranslate2

    return save_ctranslate2


def _onnx() -> Writer:
    from lamina.interop.exports.traced_files import save_onnx

    return save_onnx


def _torch_export() -> Writer:
    from lamina.interop.exports.traced_files import save_torch_export

    return save_torch_export


WRITERS: dict[str, Callable[[], Writer]] = {
    "hf": _hugging_face,
    "ctranslate2": _ctranslate2,
    "onnx": _onnx,
    "torch-export": _torch_export,
}
"""The writer of each format, made when it is needed, because it imports an optional library."""
