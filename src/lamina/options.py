"""The base of every options class: typed, frozen, and helpful about mistakes.

Each room declares its own options next to the code that reads them; `lamina.config` only composes them.
A field's description is its help text, its entry in the reference, and its comment in a written config.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lamina.errors import UserError, unknown


class Options(BaseModel):
    """Keyword options, checked on arrival and immutable afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Check `values`; a mistake raises a `UserError` that starts with `where` and names the key."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise _explain(cls, error, where) from None


def _explain(options: type[BaseModel], error: ValidationError, where: str) -> UserError:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        return UserError(f"{where}: {unknown('option', path[-1], _fields_at(options, path[:-1]))}")
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return UserError(f"{where}: {'.'.join(path)}: {unknown('value', first['input'], choices)}")
    key = ".".join(path)
    message = first["msg"].removeprefix("Value error, ")
    given = "" if first["type"] == "missing" else f" (given: {first['input']!r})"
    return UserError(f"{where}: {key}: {message}{given}" if key else f"{where}: {message}")


def _fields_at(options: type[BaseModel], path: list[str]) -> list[str]:
    """The valid keys of the options class reached by following `path`."""
    for part in path:
        field = options.model_fields.get(part)
        candidates = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        nested = [kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not nested:
            return []
        options = nested[0]
    return list(options.model_fields)
