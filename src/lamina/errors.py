"""Errors of the user: each message says what is wrong, where, and how to correct it.

The command line prints a `UserError` as one sentence; any other exception is a bug and is shown with its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in the user's input: a name, a value, a file."""


class FailedElsewhere(UserError):
    """Another process of the same run has failed and reports the reason; this process ends without a message."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The valid choice that is most similar to `word`, if any is similar."""
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
