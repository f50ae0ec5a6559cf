"""Moses' word tokenisation, by sacremoses: the words that the papers' BLEU on tokenised text counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from lamina.errors import UserError, unknown


def tokenise_words(texts: Iterable[str], language: str) -> list[str]:
    """Each text with a space between its words and punctuation marks, as Moses' script writes it.

    Signs that the script would write as XML entities (`&apos;`) stay as they are. That changes no BLEU, since each word
    has one form either way.
    """
    tokeniser = _tokeniser(language)
    return [tokeniser.tokenize(text, escape=False, return_str=True) for text in texts]


def language_of(field: str, languages: Mapping[str, str]) -> str:
    """The language of a text field, of the option `tokenizer.moses`."""
    if field not in languages:
        raise UserError(f"tokenizer.moses: the language of {field!r} is missing; it has {', '.join(languages)}.")
    return languages[field]


@cache
def _tokeniser(language: str) -> Any:
    try:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError:
        raise UserError(
            "tokenizer.moses needs sacremoses; install it with `pip install 'lamina[moses]'`, or leave it out."
        ) from None
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # sacremoses would take the rules of English
        raise UserError(f"tokenizer.moses: {unknown('language', language, known)}")
    return sacremoses.MosesTokenizer(lang=language)
