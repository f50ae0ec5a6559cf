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
from lamina.options import NONE, Options, options_of, section_of

Values = dict[str, Any]
EXAMPLE = "model.dropout=0.3"


def read_values(path: str | Path, overrides: Sequence[str] = (), kind: type[Options] | None = None) -> Values:
    """The values of a file and of what it extends, with overrides of the form `key=value`.

    kind: the class of options that the values belong to. If an override or a file names another task or scheme, the
        options of the former one (fields declared with `OptionsOf`) are dropped.
    """
    values = _read_file(Path(path), kind, seen=())
    for override in overrides:
        values = _merge(values, _read_override(override), kind)
    return values


def read_overrides(overrides: Sequence[str], example: str = EXAMPLE) -> Values:
    """Overrides alone; `example` is shown in the message about one that is not of the form `key=value`."""
    values: Values = {}
    for override in overrides:
        values = _merge(values, _read_override(override, example), None)
    return values


def _read_file(path: Path, kind: type[Options] | None, seen: tuple[Path, ...]) -> Values:
    if path.resolve() in seen:
        through = " → ".join(str(each) for each in seen)
        raise UserError(f"{path}: extends itself, through {through}; remove `extends` from one of them")
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        way_out = "lamina init writes a config, and docs/your-data.md shows those of lamina prepare"
        if seen:
            way_out = f"{seen[-1]} extends it: correct `extends` there, which is relative to that file"
        elif not path.is_absolute():
            what += f" in the working directory, {Path.cwd()}"
        raise UserError(f"{path}: {what}; {way_out}") from None
    except RecursionError:
        raise UserError(f"{path}: not a config: its values are nested too deeply; lamina init writes one") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not a TOML file: byte {error.start + 1} is not valid UTF-8; convert it with `iconv -t UTF-8`"
        ) from None
    except ValueError as error:  # no TOML, or a number of thousands of digits
        raise UserError(f"{path}: not a TOML file: {error}; correct it there") from None
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise UserError(f'{path}: extends must name one file, not {base!r}, such as extends = "base.toml"')
    return _merge(_read_file(path.parent / base, kind, (*seen, path.resolve())), values, kind)


def _read_override(override: str, example: str = EXAMPLE) -> Values:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{override!r} is not of the form key=value, such as {example}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text  # text without spaces or signs needs no quotes
    except RecursionError:
        raise UserError(f"{key}: the value is nested too deeply; write it in a TOML file") from None
    return _nested(key, value)


def with_value(values: Values, key: str, value: Any, kind: type[Options] | None = None) -> Values:
    """The values with one replaced: `with_value(values, "train.epochs", 3, RunConfig)`."""
    return _merge(values, _nested(key, value), kind)


def _nested(key: str, value: Any) -> Values:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def _merge(base: Values, change: Mapping[str, Any], kind: type[Options] | None) -> Values:
    """Merge key by key. Where `change` names another task or scheme, the options of the former one are dropped."""
    merged = dict(base)
    for name, named in (options_of(kind) if kind else {}).items():
        if named in base and named in change and base[named] != change[named]:
            merged.pop(name, None)
    for key, value in change.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        inner = section_of(kind, key) if kind else None
        merged[key] = _merge(merged[key], value, inner) if both_tables else value
    return merged


def to_toml(options: Options) -> str:
    """All values, each under its description."""
    document = tomlkit.document()
    _fill(document, options)
    return tomlkit.dumps(document)


def to_toml_value(value: Any) -> str:
    """One value as TOML, as it is written after the equals sign."""
    return to_toml_item(value).as_string()


def _fill(table: TOMLDocument | Table, options: Options) -> None:
    fields = type(options).model_fields
    sections = [name for name in fields if isinstance(getattr(options, name), Options)]
    for name, field in fields.items():
        if name not in sections:
            if field.description:
                table.add(tomlkit.comment(" ".join(field.description.split())))
            table.add(name, to_toml_item(getattr(options, name)))
    for name in sections:
        section = tomlkit.table()
        _fill(section, getattr(options, name))
        table.add(tomlkit.nl())
        table.add(name, section)


def to_toml_item(value: Any) -> Item:
    """One value, as an element of a TOML document."""
    if isinstance(value, Options):
        value = dict(value)
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for key, each in value.items():
            table.add(key, to_toml_item(each))
        return table
    if isinstance(value, tuple | list):
        array = tomlkit.array()
        for each in value:
            array.append(to_toml_item(each))
        return array
    return tomlkit.item(NONE if value is None else value)
