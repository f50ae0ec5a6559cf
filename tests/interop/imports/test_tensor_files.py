"""Tensors of a checkpoint: safetensors in one file or several; pickles only where they are allowed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lamina.errors import UserError
from lamina.interop.imports.tensor_files import read_pickled, read_tensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_shards_are_read_by_their_index(folder: Path) -> None:
    save_file({"a": torch.ones(2)}, folder / "one.safetensors")
    save_file({"b": torch.zeros(3)}, folder / "two.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert {name: len(value) for name, value in read_tensors(folder, read_pt=False).items()} == {"a": 2, "b": 3}


def test_a_truncated_file_is_named(folder: Path) -> None:
    save_file({"a": torch.ones(200)}, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-40])
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read as safetensors .*copy it again"):
        read_tensors(folder, read_pt=False)


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no model\.safetensors; save the model"):
        read_tensors(folder, read_pt=False)


def test_pickled_weights_need_permission(folder: Path) -> None:
    torch.save({"a": torch.ones(2), "step": 7}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin: .*--read-pt"):
        read_tensors(folder, read_pt=False)
    assert list(read_tensors(folder, read_pt=True)) == ["a"]


def test_safetensors_are_preferred_to_a_pickle(folder: Path) -> None:
    torch.save({"a": torch.ones(2)}, folder / "pytorch_model.bin")
    save_file({"b": torch.ones(2)}, folder / "model.safetensors")
    assert list(read_tensors(folder, read_pt=True)) == ["b"]


class Attack:
    """An object whose unpickling would write a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.file,)


def test_a_pickle_executes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "attack.pt"
    torch.save({"model": Attack(tmp_path / "written")}, file)
    with pytest.raises(UserError, match="more than tensors and values"):
        read_pickled(file, read_pt=True)
    file.write_bytes(pickle.dumps(Attack(tmp_path / "written")))
    with pytest.raises(UserError, match=r"attack\.pt"):
        read_pickled(file, read_pt=True)
    assert not (tmp_path / "written").exists()
