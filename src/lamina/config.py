"""TOML files, and overrides such as `model.dropout=0.3`, as the values that options are read from.

A file may say `extends = "other.toml"`: the other file's values come first, this one's override them key by key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Item, Table
from tomlkit.toml_document import TOMLDocument

from lamina.errors import UserError
from lamina.options import NONE, Options

Values = dict[str, Any]
EXAMPLE = "model.dropout=0.3"


def read_values(path: str | Path, overrides: Sequence[str] = ()) -> Values:
    """The values of a file and of what it extends, with overrides of the form `key=value`."""
    values = _read_file(Path(path), seen=())
    for override in overrides:
        values = _merge(values, _read_override(override))
    return values


def read_overrides(overrides: Sequence[str], example: str = EXAMPLE) -> Values:
    """Overrides alone; `example` is shown in the message about one that is not of the form `key=value`."""
    values: Values = {}
    for override in overrides:
        values = _merge(values, _read_override(override, example))
    return values


def _read_file(path: Path, seen: tuple[Path, ...]) -> Values:
    if path.resolve() in seen:
        raise UserError(f"{path}: extends itself, through {' → '.join(str(each) for each in seen)}")
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a TOML file: {error}") from None
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise UserError(f"{path}: extends must name one file, not {base!r}")
    return _merge(_read_file(path.parent / base, (*seen, path.resolve())), values)


def _read_override(override: str, example: str = EXAMPLE) -> Values:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{override!r} is not of the form key=value, such as {example}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # text without spaces or signs needs no quotes
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def _merge(base: Values, change: Mapping[str, Any]) -> Values:
    """Merge key by key. Where `change` gives another task or scheme, the `task_options` of `base` are dropped."""
    merged = dict(base)
    for key, value in change.items():
        if key in base and base[key] != value:
            merged.pop(f"{key}_options", None)
    for key, value in change.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def to_toml(options: Options) -> str:
    """All values, each under its description."""
    document = tomlkit.document()
    _fill(document, options)
    return tomlkit.dumps(document)


def to_toml_value(value: Any) -> str:
    """One value, as it stands behind the equals sign."""
    return _item(value).as_string()


def _fill(table: TOMLDocument | Table, options: Options) -> None:
    fields = type(options).model_fields
    sections = [name for name in fields if isinstance(getattr(options, name), Options)]
    for name, field in fields.items():
        if name not in sections:
            if field.description:
                table.add(tomlkit.comment(" ".join(field.description.split())))
            table.add(name, _item(getattr(options, name)))
    for name in sections:
        section = tomlkit.table()
        _fill(section, getattr(options, name))
        table.add(tomlkit.nl())
        table.add(name, section)


def _item(value: Any) -> Item:
    if isinstance(value, Options):
        value = dict(value)
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for key, each in value.items():
            table.add(key, _item(each))
        return table
    if isinstance(value, tuple | list):
        array = tomlkit.array()
        for each in value:
            array.append(_item(each))
        return array
    return tomlkit.item(NONE if value is None else value)
