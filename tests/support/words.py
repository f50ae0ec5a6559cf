"""The words of a generated text."""

from __future__ import annotations


def words_of(text: str) -> list[str]:
    return [word.strip(".,?").lower() for word in text.split()]
