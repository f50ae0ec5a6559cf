"""The weight files of a model folder of transformers: safetensors inside the folder, and no others.

A folder can name files elsewhere in four ways: an index of shards, the key `transformers_weights` of config.json, a
symbolic link, and an adapter, which names its base model. All are checked before transformers opens the folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lamina.errors import UserError

INDEX = "an index of weight files"
SUFFIX = ".safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
TO_SAFETENSORS = "save them as safetensors where you trust them: model.save_pretrained(folder)"


def has_weights(folder: Path) -> bool:
    """Whether a folder has weights; raises if they are pickled or not inside the folder."""
    if (folder / "adapter_config.json").exists():
        raise UserError(
            f"{folder}: adapter_config.json names a base model outside the folder; merge the adapter into its base, "
            "save the result, and diagnose that"
        )
    chosen = _read_json(folder / "config.json", "the config of a model of transformers").get("transformers_weights")
    if chosen is not None:
        _check(folder, chosen, "config.json: transformers_weights", (SUFFIX, f"{SUFFIX}.index.json"))
    for index in sorted(folder.glob("*.index.json")):
        shards = _read_json(index, INDEX).get("weight_map")
        if not isinstance(shards, dict):
            raise UserError(f"{index}: not {INDEX}: it has no weight_map")
        for name in sorted(set(map(str, shards.values()))):
            _check(folder, name, index.name, (SUFFIX,))
    files = sorted(folder.glob(f"*{SUFFIX}"))
    for file in files:
        _check(folder, file.name, "the folder", (SUFFIX,))
    if files:
        return True
    pickled = sorted(each.name for each in folder.iterdir() if each.suffix in PICKLED)
    if pickled:
        raise UserError(
            f"{folder}: the weights are pickled ({pickled[0]}), and opening a pickle can run any code; {TO_SAFETENSORS}"
        )
    return False


def _check(folder: Path, name: Any, named_by: str, suffixes: tuple[str, ...]) -> None:
    """Raise unless `name` is a safetensors file in the folder itself."""
    if not isinstance(name, str) or Path(name).name != name or "\\" in name:
        raise UserError(f"{folder}: {named_by} names {name!r}; weights are read only from files in the folder itself")
    if not name.endswith(suffixes):
        raise UserError(f"{folder}: {named_by} names {name!r}, which is not safetensors; {TO_SAFETENSORS}")
    file = folder / name
    if not file.is_file():
        raise UserError(f"{folder}: {named_by} names {name!r}, which is not there; copy the whole folder")
    if file.resolve().parent not in (folder.resolve(), _hub_cache(folder)):
        raise UserError(f"{file} is a link to {file.resolve()}; weights are read only from files in the folder itself")


def _hub_cache(folder: Path) -> Path | None:
    """The folder `blobs` beside `snapshots`, to which the snapshots in the cache of the Hugging Face hub link."""
    snapshots = folder.resolve().parent
    return snapshots.parent / "blobs" if snapshots.name == "snapshots" else None


def _read_json(file: Path, what: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: not {what}: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{file}: not {what}: it is not a JSON object")
    return found
