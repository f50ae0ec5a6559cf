"""Discovery of schemes, tasks, readers, measures, checks and optimisers, one file each, and of those of other packages.

    TASKS = Registry(__name__, Task, kind="task", group="lamina.tasks")

`translation.py` in that folder defines the task `translation`: the class in it whose name is the file's, with `-` for
`_`. Classes of other names, and files without such a class, are shared code. Installed packages add members through
the entry-point group; a member that cannot be loaded is left out with a warning. A script or notebook adds one with
`TASKS.add("reversal", Reversal)`, for its own process only.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import metadata
from types import ModuleType
from typing import Any, Generic, TypeVar

from lamina.errors import UserError, unknown

Member = TypeVar("Member")


class Registry(Generic[Member]):
    """The members of one kind, by name. Files are imported when the registry is first used."""

    def __init__(self, package: str, base: type[Member], *, kind: str, group: str, attribute: str = "name") -> None:
        """Create a registry.

        package: the package whose files are searched.
        base: the class that every member derives from.
        kind: the name of a member in error messages.
        group: the entry-point group through which installed packages add members.
        attribute: the class attribute that holds a member's name.
        """
        self.package, self.base, self.kind, self.group, self.attribute = package, base, kind, group, attribute

    @cached_property
    def members(self) -> dict[str, type[Member]]:
        """All members, sorted by name."""
        found: dict[str, type[Member]] = {}
        for file in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            module = importlib.import_module(f"{self.package}.{file.name}")
            name = file.name.replace("_", "-")
            for candidate in self._classes_in(module):
                if self.is_member(module, candidate, name):
                    found[name] = candidate
        for entry in metadata.entry_points(group=self.group):
            self._add_from_package(entry, found)
        return dict(sorted(found.items()))

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def values(self) -> Iterable[type[Member]]:
        """The classes, in the order of their names."""
        return self.members.values()

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __getitem__(self, name: str) -> type[Member]:
        """The member of that name; an unknown name raises a `UserError` that lists the valid ones."""
        if name not in self.members:
            raise unknown(self.kind, name, self.members)
        return self.members[name]

    def add(self, name: str, member: type[Member]) -> None:
        """Add a member for this process. Adding a class of the same name again replaces it, as in a notebook."""
        if not (isinstance(member, type) and issubclass(member, self.base)):
            raise UserError(f"{self.kind} {name!r}: {member!r} is not a subclass of {_full_name(self.base)}")
        present = self.members.get(name)
        if present is not None and _full_name(present) != _full_name(member):
            raise UserError(f"{self.kind} {name!r}: the name is in use by {_full_name(present)}; choose another")
        setattr(member, self.attribute, name)
        self.members[name] = member

    def is_member(self, module: ModuleType, candidate: type[Member], name: str) -> bool:
        """Whether a class of a file is the member that the file is named after."""
        return getattr(candidate, self.attribute, None) == name

    def _classes_in(self, module: ModuleType) -> list[type[Any]]:
        own = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
        return [each for each in own if issubclass(each, self.base)]

    def _add_from_package(self, entry: metadata.EntryPoint, found: dict[str, type[Member]]) -> None:
        where = f"{entry.dist.name if entry.dist else 'a package'}: {self.kind} {entry.name!r} ({entry.value})"
        if entry.name in found:
            warnings.warn(f"{where} is left out: the name is already in use", stacklevel=2)
            return
        try:
            member = entry.load()
            if not issubclass(member, self.base):
                raise TypeError(f"not a subclass of {_full_name(self.base)}")
        except Exception as error:  # another package's code may raise anything, and Lamina must still work
            warnings.warn(f"{where} cannot be used, left out: {error}", stacklevel=2)
            return
        setattr(member, self.attribute, entry.name)
        found[entry.name] = member


def _full_name(of: type[Any]) -> str:
    return f"{of.__module__}.{of.__qualname__}"
