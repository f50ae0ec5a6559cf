"""The tensors of a checkpoint: safetensors, or torch's own format where a user allows it.

A `.pt` or `.bin` file is a pickle. It is read only if it is asked for, by torch's restricted reader (`weights_only`),
which builds tensors, numbers, strings and containers, and calls nothing else.
"""

from __future__ import annotations

import json
import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from lamina.errors import UserError
from lamina.interop.weight_files import PICKLED, has_weights

INDEX = "model.safetensors.index.json"
WEIGHTS = "model.safetensors"
HOW_TO_ALLOW = (
    "it is a pickle, which is read only with --read-pt (read_pt=True), by torch's restricted reader; better, save "
    "the model as safetensors where you trust it"
)


def read_tensors(folder: Path, *, read_pt: bool) -> dict[str, Tensor]:
    """All tensors of a model folder, in safetensors if there are any."""
    pickled = sorted(each for each in folder.iterdir() if each.suffix in PICKLED)
    if (folder / WEIGHTS).is_file() or (folder / INDEX).is_file() or not pickled:
        if not has_weights(folder):
            raise UserError(f"{folder}: no {WEIGHTS}; save the model there: model.save_pretrained(folder)")
        return _read_safetensors(folder)
    found: dict[str, Tensor] = {}
    for file in pickled:
        content = read_pickled(file, read_pt=read_pt)
        if not isinstance(content, dict):
            raise UserError(f"{file}: not a table of tensors by name, but a {type(content).__name__}")
        found |= {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    return found


def read_pickled(file: Path, *, read_pt: bool) -> Any:
    """The content of a file of torch, read by its restricted reader; refused unless `read_pt` allows it."""
    if not read_pt:
        raise UserError(f"{file}: {HOW_TO_ALLOW}")
    try:
        with torch.serialization.safe_globals([Namespace]):  # the arguments of fairseq; it only holds values
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        what = str(error).partition("\n")[0]
        raise UserError(
            f"{file}: contains more than tensors and values, so it is not read ({what}); save only the weights where "
            "you trust the file, as safetensors"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"{file}: cannot be read as a file of torch ({error}); copy it again") from None


def _read_safetensors(folder: Path) -> dict[str, Tensor]:
    names = [WEIGHTS]
    if not (folder / WEIGHTS).is_file():
        names = sorted(set(json.loads((folder / INDEX).read_bytes())["weight_map"].values()))
    found: dict[str, Tensor] = {}
    for name in names:
        try:
            found |= load_file(folder / name)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{folder / name}: cannot be read as safetensors ({error}); copy it again") from None
    return found
