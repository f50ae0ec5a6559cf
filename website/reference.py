"""Reference pages from the code: the public functions and classes, the measures and the checks."""

from __future__ import annotations

import inspect
import sys

import lamina
from lamina.diagnosis.checks import CHECKS
from lamina.diagnosis.measures import all_measures


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


def measures_page() -> str:
    """Every measure in the order of a report: formula, source, and what to look for."""
    parts = ["# Measures\n\nWhat a diagnosis measures, in the order of its page. Made from the code.\n"]
    for measure in all_measures():
        parts.append(
            f"## {measure.title}\n\n`{measure.key}` · {measure.source}\n\n```text\n{measure.formula}\n```\n\n"
            f"**What to look for.** {measure.look_for}\n\n{_documentation(sys.modules[type(measure).__module__])}"
        )
    return "\n".join(parts)


def checks_page() -> str:
    """Every check: its question, what it reads, and its thresholds with where they come from."""
    parts = ["# Checks\n\nEach check reads measures and yields findings. Made from the code.\n"]
    for check in sorted(CHECKS.values(), key=lambda each: (each.position, each.key)):
        reads = ", ".join(f"`{key}`" for key in check.reads)
        parts.append(f"## {check.key}\n\n{_documentation(sys.modules[check.__module__])}\n\nReads {reads}.\n")
        fields = check.Thresholds.model_fields
        if fields:
            rows = [
                f"| `{name}` | {field.default} | {_one_line(field.description)} |" for name, field in fields.items()
            ]
            parts.append("\n".join(["| threshold | default | |", "| --- | --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def _described(name: str, member: object) -> str:
    try:
        signature = str(inspect.signature(member))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    own = inspect.getdoc(member) or ""
    if inspect.isclass(member) and member.__init__.__doc__:
        own += "\n\n" + inspect.cleandoc(member.__init__.__doc__)
    return f"```text\n{name}{signature}\n```\n\n```text\n{own.strip()}\n```\n"


def _documentation(module: object) -> str:
    """The docstring of a module: its indented formulas are code in Markdown too."""
    return inspect.cleandoc(module.__doc__ or "").replace("<", "&lt;")


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
