"""What an import needs to know about a foreign model, which the file of its family says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamina.data.tokenizer import Tokenizer
from lamina.errors import UserError
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelOptions

CONFIG = "config.json"


@dataclass(frozen=True)
class ForeignModel:
    """A foreign model in Lamina's terms."""

    task: str
    model: Mapping[str, Any]
    """The section [model] of the run's config."""
    tokenizers: Mapping[str, Tokenizer]
    """The tokenizer of every text field."""
    map_weights: Callable[[WeightMapping, ModelOptions], None]
    """Takes the tensors and gives them Lamina's names."""
    unused: str = ""
    """A pattern of the names of tensors that no model of Lamina needs."""
    task_options: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a user should know about the run."""


class ForeignConfig:
    """The config of a foreign model; a value that Lamina's model cannot express is refused with its name."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    @classmethod
    def read(cls, folder: Path) -> ForeignConfig:
        """The config.json of a folder."""
        file = folder / CONFIG
        try:
            content = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{file}: cannot be read as the config of a model ({error})") from None
        if not isinstance(content, dict):
            raise UserError(f"{file}: not the config of a model: it is not a JSON object")
        return cls(content, str(file))

    def get(self, name: str, default: Any = None) -> Any:
        """A value; the default where it is not given or null."""
        found = self.values.get(name)
        return default if found is None else found

    def number(self, name: str, default: int) -> int:
        """A whole number."""
        found = self.get(name, default)
        if not isinstance(found, int) or isinstance(found, bool):
            raise UserError(f"{self.where}: {name} = {found!r} is not a whole number")
        return found

    def token(self, name: str, default: int | None = None) -> int | None:
        """The id of a special token; the first one where there are several."""
        found = self.get(name, default)
        found = found[0] if isinstance(found, list) and found else found
        if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 0):
            raise UserError(f"{self.where}: {name} = {found!r} is not the id of a token")
        return found

    def refuse(self, name: str, allowed: Any, reason: str) -> None:
        """Refuse a value other than the allowed one, which is also the default."""
        if (found := self.get(name, allowed)) != allowed:
            raise UserError(f"{self.where}: {name} = {found!r} cannot be imported: {reason}")

    def same(self, one: str, other: str, default: int) -> int:
        """The value of two keys, one for the encoder and one for the decoder, that must be equal."""
        first, second = self.number(one, default), self.number(other, default)
        if first != second:
            raise UserError(
                f"{self.where}: {one} = {first}, but {other} = {second}; Lamina's encoder and decoder have one value"
            )
        return first

    def choose(self, name: str, default: str, known: Mapping[str, str]) -> str:
        """Lamina's name of a value."""
        found = self.get(name, default)
        if found not in known:
            raise UserError(
                f"{self.where}: {name} = {found!r} cannot be imported; these can: {', '.join(sorted(known))}"
            )
        return known[found]
