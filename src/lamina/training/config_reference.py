"""The reference of all config keys, made from the options: `python -m lamina.training.config_reference` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lamina.config import to_toml_value
from lamina.data.prepare_options import PrepareOptions
from lamina.generate.options import GenerateOptions
from lamina.options import NONE, Affects, Names, Options, affects
from lamina.residual import schemes
from lamina.tasks import TASKS
from lamina.training.config import RunConfig

HEAD = """# Config keys
Made from the code by `python -m lamina.training.config_reference > docs/config.md`; a test keeps it true.

A config is one TOML file. `extends = "other.toml"` takes another file's values first; overrides on the command line,
`model.dropout=0.3`, come last. Another `task` or `residual` than in the file that is extended starts with its own
default options. `"none"` stands for no value where that is the default. The whole config is checked before any data is
prepared. It goes into the run folder with every default written out, and `lamina train runs/NAME` reads it there.

The column "allowed" lists every value of a closed set, and otherwise says what kind of value a key takes. The column
"affects" says what another value would change. A run can be resumed while nothing that affects *results* has
changed; `lamina compare` reuses a finished run while nothing that affects results, *length* or *rounding* has.
"""


def config_reference() -> str:
    results = Affects.RESULTS
    sections = [HEAD, "## A run: `lamina train`\n" + _table(RunConfig, results), *_sections(RunConfig, results)]
    for task in TASKS.values():
        table = _table(task.Options, results) + _own_generation(task.Options)
        sections.append(f"### [task_options] of {task.name}\n{table}")
    generation = _table(GenerateOptions, results)
    sections.append(f"### [task_options.generation]\nAlso of `lamina generate` and `evaluate`.\n\n{generation}")
    for scheme in schemes():
        if scheme.Options.model_fields:
            sections.append(f"### [model.residual_options] of {scheme.name}\n" + _table(scheme.Options, results))
    sections += ["## Data: `lamina prepare`\n" + _table(PrepareOptions), *_sections(PrepareOptions)]
    return "\n".join(sections)


def _sections(options: type[Options], inherited: Affects | None = None, above: str = "") -> Iterator[str]:
    """A table for every section below, however deep."""
    for name, field in options.model_fields.items():
        if _is_section(field):
            below: Any = field.annotation
            declared = inherited and _effect(field, inherited)
            yield f"### [{above}{name}]\n" + _table(below, declared)
            yield from _sections(below, declared, f"{above}{name}.")


def _own_generation(options: type[Options]) -> str:
    """In what a task's search differs from the defaults below."""
    field = options.model_fields.get("generation")
    own = {} if field is None else field.default.model_dump(exclude_defaults=True)
    return "".join(f"\n`generation.{key}` is `{to_toml_value(value)}` here.\n" for key, value in own.items())


def _table(options: type[Options], inherited: Affects | None = None) -> str:
    """The keys of a section, without the sections below it; `inherited` is what the section as a whole affects."""
    columns = ["key", "default", "allowed", *(["affects"] if inherited else []), "meaning"]
    rows = [columns, ["---"] * len(columns)]
    for name, field in options.model_fields.items():
        if not _is_section(field):
            effect = [_effect(field, inherited).value] if inherited else []
            rows.append([f"`{name}`", _default(field), allowed_values(field), *effect, _cell(field.description)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def allowed_values(field: FieldInfo) -> str:
    """The values that a key takes: every name of a closed set, or the kind of value with its bounds."""
    named = [each for each in field.metadata if isinstance(each, Names)]
    if named:
        names = ", ".join(f"`{name}`" for name in named[0].listing())
        kinds = get_args(field.annotation)
        is_pair = any(get_origin(kind) is tuple for kind in kinds)
        return names + (", or a pair of them" if is_pair else "") + (f" or `{NONE}`" if NoneType in kinds else "")
    return " or ".join(dict.fromkeys(_describe(field.annotation, field.metadata)))


def _describe(kind: Any, metadata: Sequence[Any] = ()) -> Iterator[str]:
    """A phrase for each kind of value that an annotation allows."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _describe(parts[0], (*parts[1:], *metadata))
    elif origin is Literal:
        yield ", ".join(f"`{each}`" for each in parts)
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _describe(part, metadata)
    elif origin is tuple:
        what = " or ".join(dict.fromkeys(_describe(parts[0])))
        yield f"a list of: {what}" if parts[-1] is Ellipsis else f"a pair of: {what}"
    elif origin is dict:
        keys, values = (" or ".join(dict.fromkeys(_describe(part))) for part in parts)
        yield f"a table from {keys} to: {values}"
    elif kind is NoneType:
        yield f"`{NONE}`"
    elif kind is bool:
        yield "`true`, `false`"
    elif isinstance(kind, type) and issubclass(kind, Options):
        yield "a table"
    else:
        yield " ".join([_KINDS[kind], " and ".join(_bounds(metadata))]).strip()


_KINDS = {int: "integer", float: "number", str: "text"}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    """`≥ 0`, `< 1`, from pydantic's constraints; some are nested in a `FieldInfo`."""
    for each in metadata:
        yield from _bounds(each.metadata) if isinstance(each, FieldInfo) else ()
        for name, sign in _SIGNS.items():
            bound = getattr(each, name, None)
            if bound is not None and abs(bound) < 2**31:  # larger ones only say that a number must fit into memory
                yield f"{sign} {bound}"


def _effect(field: FieldInfo, inherited: Affects) -> Affects:
    return affects(field) if inherited is Affects.RESULTS else inherited


def _is_section(field: FieldInfo) -> bool:
    """Whether a field has a table of its own; the options of a task or scheme have one for each."""
    kind = field.annotation
    return isinstance(kind, type) and issubclass(kind, Options) and kind is not Options


def _default(field: FieldInfo) -> str:
    return "must be given" if field.default is PydanticUndefined else f"`{to_toml_value(field.default)}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    print(config_reference(), end="")
