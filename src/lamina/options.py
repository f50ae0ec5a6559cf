"""The base class of all options: typed, immutable, and with error messages that name the key.

Each package declares its options next to the code that reads them; `RunConfig` composes them. A field's docstring is
its help text, its entry in docs/config.md, and its comment in a written config. `Annotated` says more about a field:

    device: Annotated[str, Affects.ROUNDING] = "auto"
    keep_checkpoints: Annotated[int, Formerly("keep")] = 3
    task: Annotated[str, Names(lambda: TASKS)] = "translation"

TOML has no null: in a config, `"none"` stands for it where a field may be None.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from lamina.errors import UserError, unknown
from lamina.terminal import visible

NONE = "none"
"""The text that stands for None in a config."""

_WHOLE_NUMBER, _NUMBER, _LIST = "must be a whole number", "must be a number", "must be a list"
MESSAGES = {
    "missing": "a value is missing; give one",
    "model_type": "a section with keys of its own; set one of these",
    "model_attributes_type": "a section with keys of its own; set one of these",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": "must be a table of keys and values",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
"""The messages about values of the wrong kind or size, by pydantic's name of the error; others keep pydantic's text."""


class Affects(Enum):
    """What another value of a field would change: `Annotated[str, Affects.ROUNDING]`; RESULTS if not annotated.

    The annotation of a section holds for all fields in it.
    """

    RESULTS = "results"
    """The weights or the metrics of a run."""
    LENGTH = "length"
    """The number of steps of a run; results of earlier steps stay the same."""
    ROUNDING = "rounding"
    """The way results are computed: they differ by floating-point rounding, or by another device's random numbers."""
    NOTHING = "nothing"
    """Only what is logged, shown or kept, and where; never a result."""


@dataclass(frozen=True)
class Formerly:
    """The name that a field had in the version before, which is still accepted, with a note that names the new one."""

    name: str


@dataclass(frozen=True)
class Added:
    """Declares a field that a later version added, and whose default computes what was computed before.

    At its default it is no part of what runs are compared by, so that finished runs of former versions stay valid.
    """


@dataclass(frozen=True)
class OptionsOf:
    """Declares a field that holds the options of the task, scheme or optimiser that another field names.

    task_options: Annotated[Options, OptionsOf("task")]
    """

    name: str


@dataclass(frozen=True)
class Names:
    """The names that a field takes, where they are not a `Literal` because files or packages add to them."""

    listing: Callable[[], Iterable[str]]


class Options(BaseModel):
    """Keyword options, checked on arrival and immutable afterwards."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Replace former names by the new ones, refuse unknown names, and convert `"none"` to None."""
        if not isinstance(values, Mapping):
            return values
        values = _rename(cls, values)
        for name, value in values.items():
            field = cls.model_fields.get(name)
            if field is None:
                raise mistake(_unknown_option(cls, name), name, value)
            if isinstance(value, bool) and not _takes(field.annotation, bool):  # Python takes True for 1
                raise mistake(f"{name} is a number or a word, not {str(value).lower()}", name, value)
            if value == NONE and _takes(field.annotation, type(None)):
                values[name] = None
        return cls.add_values(values)

    @classmethod
    def add_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The given values, with those that they imply added, such as those of a preset."""
        return values

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Check `values`; a mistake raises a `UserError` that starts with `where` and names the key."""
        token = _notes.set([])
        try:
            checked = cls.model_validate(dict(values))
            _print_notes(where)
        except ValidationError as error:
            raise _explain(error, where, values) from None
        finally:
            _notes.reset(token)
        return checked


AnyOptions = TypeVar("AnyOptions", bound=Options)


def own_options(kind: type[AnyOptions], given: Any) -> AnyOptions:
    """The options of a class that another field determines, such as those of a scheme by its name.

    `given` is a mapping, or options; of options of another class, the values that were set are used.
    """
    if type(given) is kind:
        return given
    return kind.model_validate(given.model_dump(exclude_unset=True) if isinstance(given, Options) else given)


def affects(field: FieldInfo) -> Affects:
    """The effect that a field declares."""
    return next((each for each in field.metadata if isinstance(each, Affects)), Affects.RESULTS)


def result_values(options: Options, *counted: Affects) -> dict[str, Any]:
    """The values of all fields that affect one of `counted`, as JSON and nested like the options.

    result_values(config, Affects.RESULTS)                                      must be equal to resume a run
    result_values(config, Affects.RESULTS, Affects.LENGTH, Affects.ROUNDING)    … to reuse a finished run
    """
    found = options.model_dump(mode="json")
    for name, field in type(options).model_fields.items():
        value = getattr(options, name)
        if affects(field) not in counted or (Added() in field.metadata and value == field.default):
            del found[name]
        elif isinstance(value, Options):
            found[name] = result_values(value, *counted)
    return found


def options_of(options: type[Options]) -> dict[str, str]:
    """The fields that hold the options of another one, each with the name of that one: `{"task_options": "task"}`."""
    declared = {name: field.metadata for name, field in options.model_fields.items()}
    return {name: each.name for name, found in declared.items() for each in found if isinstance(each, OptionsOf)}


def section_of(options: type[Options], name: str) -> type[Options] | None:
    """The class of a section; None where the field is no section, or there is none of this name."""
    kind = options.model_fields[name].annotation if name in options.model_fields else None
    return kind if isinstance(kind, type) and issubclass(kind, Options) else None


def mistake(message: str, key: str, value: object) -> ValidationError:
    """An error for a validator to raise, in the value of a key: like pydantic's own, it ends up with its full path."""
    error = PydanticCustomError("mistake", "{message}", {"message": message})
    return ValidationError.from_exception_data("options", [InitErrorDetails(type=error, loc=(key,), input=value)])


_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)
_printed: set[str] = set()


def _rename(options: type[Options], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the new names of keys that were given by a former one."""
    renamed = dict(values)
    for name, field in options.model_fields.items():
        for former in (each.name for each in field.metadata if isinstance(each, Formerly)):
            if former not in renamed:
                continue
            if name in renamed:
                raise mistake(f"this is the former name of {name!r}, which is given too", former, renamed[former])
            renamed[name] = renamed.pop(former)
            note_renamed(f"{former!r} is now called {name!r}; the next version will not know the former name")
    return renamed


def note_renamed(text: str) -> None:
    """Note that a key was renamed: printed after the config is read; options made in Python warn immediately."""
    notes = _notes.get()
    if notes is None:
        warnings.warn(text, FutureWarning, stacklevel=5)
    else:
        notes.append(text)


def _print_notes(where: str) -> None:
    """Print each note once per file and key, although a file may be read several times."""
    for note in _notes.get() or ():
        line = f"{where}: {note}"
        if line not in _printed:
            _printed.add(line)
            print(visible(line), file=sys.stderr)


def _unknown_option(options: type[Options], name: str) -> str:
    """The message about an unknown key, with its path where a section has a key of that name."""
    paths = list(_paths_to(options, name))
    message = str(unknown("option", name, options.model_fields))
    return f"unknown option {name!r}; did you mean {' or '.join(map(repr, paths))}?" if paths else message


def _paths_to(options: type[Options], name: str, prefix: str = "") -> Iterator[str]:
    for section in options.model_fields:
        if (kind := section_of(options, section)) is not None:
            if name in kind.model_fields:
                yield f"{prefix}{section}.{name}"
            yield from _paths_to(kind, name, f"{prefix}{section}.")


def _explain(error: ValidationError, where: str, values: Mapping[str, Any]) -> UserError:
    # If several kinds of value are allowed, the error with the longest path is the relevant one.
    first = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))
    start = ": ".join([where, *filter(None, [".".join(_keys(first["loc"], values))])])
    if first["type"] == "mistake":
        return UserError(f"{start}: {first['msg']}")
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return UserError(f"{start}: {unknown('value', first['input'], choices)}")
    plain = MESSAGES.get(first["type"])
    message = plain.format(**first.get("ctx", {})) if plain else first["msg"].removeprefix("Value error, ")
    whole_section = first["type"] == "missing" or isinstance(first["input"], Mapping | Options)
    given = repr(first["input"])
    given = given if len(given) <= 80 else f"{given[:80]}..."
    return UserError(f"{start}: {message}" if whole_section else f"{start}: {message} (given: {given})")


def _keys(location: Iterable[int | str], values: Any) -> list[str]:
    """The path of keys to a mistake, without the names that pydantic gives to the kinds of value it tried."""
    kinds = re.compile(r"[\[\]()]|^(?:constrained-)?(?:int|float|str|bool|dict|tuple|list|literal)\b")
    keys = []
    for part in location:
        given = isinstance(values, Mapping) and part in values
        values = values[part] if given else values if isinstance(part, str) else None
        if given or isinstance(part, int) or not kinds.search(part):
            keys.append(str(part))
    return keys


def _takes(annotation: Any, kind: type) -> bool:
    """Whether a field may hold a value of this kind."""
    return annotation in (kind, Any) or any(_takes(part, kind) for part in get_args(annotation))
