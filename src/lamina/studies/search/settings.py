"""The section `[search]` of a config, and the runs that it asks for."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveInt

from lamina.config import to_toml_value, with_value
from lamina.errors import UserError
from lamina.formatting import short_keys
from lamina.options import Options
from lamina.training.config import SEARCH, RunConfig

EXAMPLE = f"[{SEARCH}] with train.epochs = [3, 5] in the file, or {SEARCH}.train.epochs=[3,5] after it"


class SearchOptions(Options):
    """The keys of `[search]` that are not keys of the config."""

    seeds: PositiveInt = 6
    """The number of seeds of each setting, counted from the config's seed; the paper repeats fine-tuning six times."""


@dataclass(frozen=True)
class SearchSetting:
    """One combination of the values that are searched."""

    values: tuple[tuple[str, Any], ...]
    """Keys of the config, such as `train.epochs`, with their values."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys as headings: without their sections, unless two keys are then the same."""
        return short_keys([key for key, _ in self.values])

    @property
    def cells(self) -> tuple[str, ...]:
        """The values as a config has them."""
        return tuple(to_toml_value(value) for _, value in self.values)

    def __str__(self) -> str:
        """`train.epochs = 3, schedule.learning_rate = 1e-05`, as overrides of a config."""
        pairs = zip((key for key, _ in self.values), self.cells, strict=True)
        return ", ".join(f"{key} = {cell}" for key, cell in pairs)

    @property
    def name(self) -> str:
        """`epochs3-learning_rate1e-05`, which a folder can be named after."""
        pairs = zip(self.keys, (value for _, value in self.values), strict=True)
        return "-".join(f"{key}{_plain(value)}" for key, value in pairs)


@dataclass(frozen=True)
class SearchCell:
    """One run of a search."""

    setting: SearchSetting
    seed: int
    config: RunConfig
    is_diagnosed: ClassVar[bool] = False
    """A search has many runs, and asks only which of them is best."""

    @property
    def name(self) -> str:
        return f"{self.setting.name}-seed{self.seed}"


def read_search(values: Mapping[str, Any], where: str) -> tuple[list[SearchSetting], list[SearchCell]]:
    """All settings, and their runs seed by seed, so that an interrupted search has equally many of each setting.

    values: those of a config file with a section `[search]`, before validation.
    where: the start of error messages, such as the file.
    """
    section = values.get(SEARCH)
    if not isinstance(section, Mapping):
        raise UserError(f"{where}: no values to search; list them as {EXAMPLE}")
    own = {key: value for key, value in section.items() if key in SearchOptions.model_fields}
    options = SearchOptions.read(own, where=f"{where}: {SEARCH}")
    searched = dict(_lists({key: value for key, value in section.items() if key not in own}, where))
    if not searched:
        raise UserError(f"{where}: {SEARCH} has no key of the config; list values as {EXAMPLE}")
    settings = [
        SearchSetting(tuple(zip(searched, combination, strict=True)))
        for combination in itertools.product(*searched.values())
    ]
    base = {key: value for key, value in values.items() if key != SEARCH}
    configs = [_config(base, setting, where) for setting in settings]
    first = configs[0].seed
    cells = [
        SearchCell(setting, seed, config.model_copy(update={"seed": seed}))
        for seed in range(first, first + options.seeds)
        for setting, config in zip(settings, configs, strict=True)
    ]
    return settings, cells


def _lists(section: Mapping[str, Any], where: str, prefix: str = "") -> Iterator[tuple[str, Sequence[Any]]]:
    """The keys of the config with their lists of values; a quoted key may contain dots."""
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _lists(value, where, f"{key}.")
            continue
        start = f"{where}: {SEARCH}.{key}"
        if not isinstance(value, list) or not value:
            raise UserError(f"{start}: give a list of values, such as [{to_toml_value(value) if value else '1, 2'}]")
        repeated = [each for at, each in enumerate(value) if each in value[:at]]
        if repeated:
            raise UserError(f"{start}: the value {to_toml_value(repeated[0])} is listed twice; name it once")
        if key == "seed":
            raise UserError(f"{start}: seeds are not searched; give their number as {SEARCH}.seeds")
        yield key, value


def _config(base: Mapping[str, Any], setting: SearchSetting, where: str) -> RunConfig:
    values = dict(base)
    for key, value in setting.values:
        values = with_value(values, key, value, RunConfig)
    return RunConfig.read(values, where=f"{where} with {setting}")


def _plain(value: Any) -> str:
    """A value as part of a file name; where signs had to be replaced, with a hash, so that names stay different."""
    text = value if isinstance(value, str) else to_toml_value(value)
    plain = re.sub(r"[^A-Za-z0-9.+_-]+", "-", text).strip("-.")
    return plain if plain == text else f"{plain[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
