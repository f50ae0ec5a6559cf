"""The reference page of the public functions and classes, from the code."""

from __future__ import annotations

import inspect

import lamina


def api_page() -> str:
    """Every public name with its signature and docstring, and the public methods of classes."""
    parts = ["# Python\n\nEverything that `import lamina` offers. Made from the code.\n"]
    for name in sorted(lamina.__all__, key=str.lower):
        if name.startswith("__"):
            continue
        member = getattr(lamina, name)
        parts.append(f"## lamina.{name}\n\n" + _described(name, member))
        if inspect.isclass(member):
            for method, function in inspect.getmembers(member, inspect.isfunction):
                documented = function.__doc__ and not method.startswith("_")
                if documented and function.__module__.startswith("lamina"):
                    parts.append(f"### {name}.{method}\n\n" + _described(method, function))
    return "\n".join(parts)


def _described(name: str, member: object) -> str:
    try:
        signature = str(inspect.signature(member))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    own = inspect.getdoc(member) or ""
    if inspect.isclass(member) and inspect.isfunction(member.__init__) and member.__init__.__doc__:
        own += "\n\n" + inspect.cleandoc(member.__init__.__doc__)
    return f"```text\n{name}{signature}\n```\n\n```text\n{own.strip()}\n```\n"
