"""The weight files of a model folder: safetensors inside the folder, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.interop.weight_files import has_weights

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "config.json").write_text("{}")
    return inside


def write_index(folder: Path, name: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"a.weight": name}}))


def test_safetensors_inside_the_folder_are_weights(folder: Path) -> None:
    assert not has_weights(folder)
    (folder / "part-1.safetensors").touch()
    write_index(folder, "part-1.safetensors")
    assert has_weights(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../elsewhere/w.bin", "only from files in the folder itself"),
        ("../elsewhere/w.safetensors", "only from files in the folder itself"),
        ("..\\w.safetensors", "only from files in the folder itself"),
        ("w.bin", "not safetensors"),
        ("missing.safetensors", "not there"),
        (3, "not safetensors"),
    ],
)
def test_an_index_names_only_safetensors_inside_the_folder(folder: Path, name: object, message: str) -> None:
    (folder.parent / "elsewhere").mkdir()
    for file in (
        folder.parent / "elsewhere" / "w.bin",
        folder.parent / "elsewhere" / "w.safetensors",
        folder / "w.bin",
    ):
        file.touch()
    write_index(folder, name)
    with pytest.raises(UserError, match=rf"{INDEX} names .*{message}"):
        has_weights(folder)
    write_index(folder, str((folder.parent / "elsewhere" / "w.safetensors").absolute()))
    with pytest.raises(UserError, match="only from files in the folder itself"):
        has_weights(folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": 3}'])
def test_files_that_are_not_an_index(folder: Path, content: str) -> None:
    (folder / INDEX).write_text(content)
    with pytest.raises(UserError, match="not an index of weight files"):
        has_weights(folder)


def test_the_config_names_only_safetensors_inside_the_folder(folder: Path) -> None:
    (folder / "w.safetensors").touch()
    for name in ("../w.safetensors", "adapter_model.bin", 7):
        (folder / "config.json").write_text(json.dumps({"transformers_weights": name}))
        with pytest.raises(UserError, match="transformers_weights"):
            has_weights(folder)
    (folder / "config.json").write_text(json.dumps({"transformers_weights": "w.safetensors"}))
    assert has_weights(folder)


def test_links_lead_out_of_the_folder_only_into_the_hub_cache(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "w.safetensors").touch()
    (folder / "model.safetensors").symlink_to(tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="is a link to"):
        has_weights(folder)
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "revision", tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abc").touch()
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    assert has_weights(snapshot)


def test_an_adapter_names_a_base_model_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").touch()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "../elsewhere"}')
    with pytest.raises(UserError, match=r"adapter_config\.json .*merge the adapter"):
        has_weights(folder)


def test_pickles_are_not_opened(folder: Path) -> None:
    (folder / "pytorch_model.bin").touch()
    with pytest.raises(UserError, match=r"pickled \(pytorch_model.bin\).*save them as safetensors"):
        has_weights(folder)
