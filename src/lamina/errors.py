"""Errors a user can act on: each says what is wrong, where, and the way out.

The command line prints a `UserError` as one sentence; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in what the user gave us: a name, a number, a file."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The valid choice that looks most like `word`, if any does."""
    by_lowercase = {choice.lower(): choice for choice in choices}
    matches = difflib.get_close_matches(word.lower().replace("_", "-"), by_lowercase, n=1, cutoff=0.5)
    matches = matches or difflib.get_close_matches(word.lower(), by_lowercase, n=1, cutoff=0.5)
    return by_lowercase[matches[0]] if matches else None


def unknown(kind: str, word: str, choices: Iterable[str]) -> UserError:
    """`unknown("role", "qeury", …)` → "unknown role 'qeury'; did you mean 'query'? …"."""
    choices = list(choices)
    guess = nearest(word, choices)
    hint = f"; did you mean {guess!r}?" if guess else "."
    listing = f" Valid: {', '.join(choices)}." if choices else " There are none."
    return UserError(f"unknown {kind} {word!r}{hint}{listing}")
