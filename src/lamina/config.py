"""TOML files, and words such as `model.dropout=0.3`, as the values that options are read from.

A file may say `extends = "other.toml"`: the other file's values come first, this one's override them key by key.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.options import Options

Values = dict[str, Any]
EXAMPLE = "model.dropout=0.3"


def read_values(path: str | Path, words: Sequence[str] = ()) -> Values:
    """The values of a file and of what it extends, overridden by `key=value` words."""
    values = _read_file(Path(path), seen=())
    for word in words:
        values = _merge(values, _read_word(word))
    return values


def words_to_values(words: Sequence[str], example: str = EXAMPLE) -> Values:
    """`key=value` words alone; `example` is shown to whoever writes them otherwise."""
    values: Values = {}
    for word in words:
        values = _merge(values, _read_word(word, example))
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


def _read_word(word: str, example: str = EXAMPLE) -> Values:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise UserError(f"{word!r} is not of the form key=value, such as {example}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a plain word needs no quotes
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def _merge(base: Values, change: Mapping[str, Any]) -> Values:
    merged = dict(base)
    for key, value in change.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def to_toml(options: Options) -> str:
    """All values, resolved, each under its description."""
    return "\n".join(_lines(options, ())).strip() + "\n"


def _lines(options: Options, path: tuple[str, ...]) -> list[str]:
    plain, tables = [], []
    for name, field in type(options).model_fields.items():
        value = getattr(options, name)
        if isinstance(value, Options):
            tables += ["", f"[{'.'.join((*path, name))}]", *_lines(value, (*path, name))]
        elif value is not None:
            comment = " ".join((field.description or "").split())
            plain += [f"# {comment}"] if comment else []
            plain.append(f"{name} = {_toml(value)}")
    return plain + tables


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{'-' if value < 0 else ''}inf"
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if item is not None}  # TOML has no word for nothing
        items = ", ".join(f"{_quoted(str(key))} = {_toml(item)}" for key, item in given.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, but for one character that TOML wants escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
