"""Stored golden values, and the table that ties them to result versions.

A JSON file holds the values of each kind of row. `versions.json` has, for every row, a list of [result versions that
its values depend on, hash of the values], oldest first. Two rules make sure that neither changes without the other:

- where the hash changes, a version has risen: finished runs are not reused after results have changed;
- where a version rises, the hash of some row that depends on it changes: nothing is trained again for no reason.

A measure or a check that is added changes no other value: its values are stored beside the others, and the hash of the
last entry is replaced.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
TABLE = "versions.json"
RELATIVE, ABSOLUTE = 1e-9, 1e-14  # float64 on different processors differs by less

Versions = dict[str, int]
"""Result versions by component, such as `shared path` or `scheme b2t`."""
Table = dict[str, list[tuple[Versions, str]]]
"""By row, oldest entry first."""


class Refused(Exception):
    """Golden values and result versions are inconsistent; the message says what to change."""


def read_values(folder: Path = FOLDER) -> dict[str, Any]:
    """All stored values by row, `scheme/b2t`."""
    files = sorted(file for file in folder.glob("*.json") if file.name != TABLE)
    return {f"{file.stem}/{name}": values for file in files for name, values in json.loads(file.read_text()).items()}


def write_values(values: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Files whose values are what they were are left as they are."""
    stored = read_values(folder)
    for file in sorted({row.partition("/")[0] for row in values}):
        before, after = (
            {row.partition("/")[2]: each[row] for row in each if row.startswith(f"{file}/")}
            for each in (stored, values)
        )
        if digest(before) != digest(after):
            (folder / f"{file}.json").write_text(_layout(after) + "\n")


def read_table(folder: Path = FOLDER) -> Table:
    file = folder / TABLE
    stored = json.loads(file.read_text()) if file.exists() else {}
    return {row: [(versions, hashed) for versions, hashed in entries] for row, entries in stored.items()}


def write_table(table: Table, folder: Path = FOLDER) -> None:
    (folder / TABLE).write_text(_layout(dict(sorted(table.items()))) + "\n")


def digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def rounded(values: Any) -> Any:
    """To twelve digits, which is more than is compared."""
    if isinstance(values, Mapping):
        return {name: rounded(each) for name, each in values.items()}
    if isinstance(values, list | tuple):
        return [rounded(each) for each in values]
    return float(f"{values:.12g}") if isinstance(values, float) else values


def differences(found: Any, stored: Any, where: str = "") -> Iterator[str]:
    """The places at which two sets of values differ by more than rounding."""
    if isinstance(found, Mapping) and isinstance(stored, Mapping):
        for name in [*stored, *(name for name in found if name not in stored)]:
            if name in found and name in stored:
                yield from differences(found[name], stored[name], f"{where}/{name}")
            else:
                yield f"{where}/{name}: only in what is {'stored' if name in stored else 'found'}"
    elif isinstance(found, list | tuple) and isinstance(stored, list):
        if len(found) != len(stored):
            yield f"{where}: {len(found)} values, stored are {len(stored)}"
            return
        for at, (one, other) in enumerate(zip(found, stored, strict=True)):
            yield from differences(one, other, f"{where}[{at}]")
    elif not _same(found, stored):
        yield f"{where}: {found!r}, stored is {stored!r}"


def adds_to(stored: Any, found: Any) -> bool:
    """Whether the values are the stored ones and others beside them, as when a measure or a check is new."""
    if isinstance(stored, Mapping) and isinstance(found, Mapping):
        return all(name in found and adds_to(each, found[name]) for name, each in stored.items())
    return next(differences(found, stored), None) is None


def _same(found: Any, stored: Any) -> bool:
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in (found, stored)]
    if not all(numbers):
        return bool(found == stored)
    both_nan = math.isnan(found) and math.isnan(stored)
    return both_nan or math.isclose(found, stored, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def update(
    table: Table, stored: Mapping[str, Any], found: Mapping[str, Any], present: Mapping[str, Versions]
) -> tuple[Table, dict[str, Any]]:
    """The table and the values after `found` was computed by code of the `present` versions, or `Refused`."""
    table, values, refused = {row: list(entries) for row, entries in table.items()}, {}, []
    for row, versions in present.items():
        entries = table.setdefault(row, [])
        changed = row not in stored or next(differences(found[row], stored[row]), None)
        values[row] = rounded(found[row]) if changed else stored[row]
        if entries and changed and entries[-1][0] == versions and adds_to(stored.get(row), found[row]):
            entries[-1] = versions, digest(values[row])
        elif entries and changed and entries[-1][0] == versions:
            refused.append(f"{row} has changed ({changed}): raise the result version of {' or '.join(versions)}")
        elif not entries or changed or entries[-1][0] != versions:
            entries.append((versions, digest(values[row])))
    refused = refused or list(faults(table, values, present))
    if refused:
        raise Refused("\n".join(refused))
    return table, values


def faults(table: Table, values: Mapping[str, Any], present: Mapping[str, Versions]) -> Iterator[str]:
    """What is wrong with a table. Rows that are no longer computed stay in it as a record."""
    for row, versions in present.items():
        if row not in values or not table.get(row):
            yield f"{row} has no golden values, or none in the table"
        elif table[row][-1][0] != versions:
            yield f"{row}: the table ends with the versions {table[row][-1][0]}, the code has {versions}"
        elif table[row][-1][1] != digest(values[row]):
            yield f"{row}: the stored values are not those of the table"
    for row, entries in table.items():
        for (before, _), (after, _) in pairwise(entries):
            falls = [name for name in before if after.get(name, before[name]) < before[name]]
            if falls or before == after:
                yield f"{row}: {' and '.join(falls) or 'no version'} {'falls' if falls else 'rises'} with a new entry"
    yield from (
        f"the result version of {component} was raised to {version}, but no golden value has changed with it"
        for component, version in sorted(_raised(table) - _raised(table, with_reason=True))
    )


def _raised(table: Table, with_reason: bool = False) -> set[tuple[str, int]]:
    """Every component and version that it was raised to; `with_reason` only where the values of a row changed."""
    return {
        (component, version)
        for entries in table.values()
        for (before, old_hash), (after, new_hash) in pairwise(entries)
        if not with_reason or old_hash != new_hash
        for component in before.keys() & after.keys()
        for version in range(before[component] + 1, after[component] + 1)
    }


def _layout(values: Any, indent: str = "") -> str:
    """JSON with a line for each innermost list."""
    inner = indent + " "
    if isinstance(values, Mapping) and values:
        items = [f"{json.dumps(name)}: {_layout(each, inner)}" for name, each in values.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{indent}}}"
    if isinstance(values, list) and any(isinstance(each, list | tuple) for each in values):
        return "[\n" + ",\n".join(inner + json.dumps(each, ensure_ascii=False) for each in values) + f"\n{indent}]"
    return json.dumps(values, ensure_ascii=False)
