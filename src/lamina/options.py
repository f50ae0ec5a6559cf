"""The base of every options class: typed, frozen, and helpful about mistakes.

Each room declares its own options next to the code that reads them; `lamina.config` only composes them.
A field's description is its help text, its entry in the reference, and its comment in a written config.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from lamina.errors import UserError, unknown


class Affects(Enum):
    """What another value of a field would change: `Annotated[str, Affects.ROUNDING]`, RESULTS where nothing is said.

    Said of a section, it holds for all fields in it.
    """

    RESULTS = "results"
    """The weights or the metrics of a run."""
    LENGTH = "length"
    """How far a run goes: its results up to there stay the same."""
    ROUNDING = "rounding"
    """How the same is computed: results differ as floating-point rounding or another device's random numbers do."""
    NOTHING = "nothing"
    """What is written down, shown or kept, and where."""


class Options(BaseModel):
    """Keyword options, checked on arrival and immutable afterwards."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _no_booleans_for_numbers(cls, values: Any) -> Any:
        """Python takes True for 1; a config that says so is a mistake."""
        for name, value in values.items() if isinstance(values, Mapping) else ():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None and not _takes_booleans(field.annotation):
                raise ValueError(f"{name} is a number or a word, not {str(value).lower()}")
        return values

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Check `values`; a mistake raises a `UserError` that starts with `where` and names the key."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise _explain(cls, error, where) from None


def affects(field: FieldInfo) -> Affects:
    """What a field declares."""
    return next((each for each in field.metadata if isinstance(each, Affects)), Affects.RESULTS)


def result_values(options: Options, *counted: Affects) -> dict[str, Any]:
    """The values of all fields that affect one of `counted`, as JSON and nested like the options.

    result_values(config, Affects.RESULTS)                                      must be equal to resume a run
    result_values(config, Affects.RESULTS, Affects.LENGTH, Affects.ROUNDING)    … to reuse a finished run
    """
    found = options.model_dump(mode="json")
    for name, field in type(options).model_fields.items():
        value = getattr(options, name)
        if affects(field) not in counted:
            del found[name]
        elif isinstance(value, Options):
            found[name] = result_values(value, *counted)
    return found


def _explain(options: type[BaseModel], error: ValidationError, where: str) -> UserError:
    # Where several kinds of value are allowed, the error that got furthest is the one that was meant.
    first = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))
    path = _keys(options, first["loc"])
    if first["type"] == "extra_forbidden":
        where = ": ".join([where, *filter(None, [".".join(path[:-1])])])
        return UserError(f"{where}: {unknown('option', path[-1], _fields_at(options, path[:-1]))}")
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return UserError(f"{where}: {'.'.join(path)}: {unknown('value', first['input'], choices)}")
    key = ".".join(path)
    message = first["msg"].removeprefix("Value error, ")
    given = "" if first["type"] == "missing" else f" (given: {first['input']!r})"
    return UserError(f"{where}: {key}: {message}{given}" if key else f"{where}: {message}")


def _keys(options: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys on the way to a mistake, without the names pydantic gives to the kinds of value it tried."""
    kinds = re.compile(r"[\[\]()]|^(?:constrained-)?(?:int|float|str|bool|dict|tuple|list|literal)\b")
    return [str(part) for part in location if isinstance(part, int) or not kinds.search(part)]


def _takes_booleans(annotation: Any) -> bool:
    return annotation in (bool, Any) or any(_takes_booleans(part) for part in get_args(annotation))


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
